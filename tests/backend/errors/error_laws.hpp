// Owns matrices against which the model of rounding was not fitted: of one sign, with outlier rows
// or columns wherever they lie, clustered, graded, Kahan's, with few bits; in the encodings that
// weights are stored in. Seeded.
#pragma once

#include "tests/support/encoded_weights.hpp"
#include "tests/support/known_spectra.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::test {

/// A law of weights: n x p, n >= p, drawn with `seed`.
struct ErrorLaw {
  const char* name;
  FloatMatrix (*make)(std::int64_t n, std::int64_t p, std::uint64_t seed);
};
const std::vector<ErrorLaw>& error_laws();

/// An encoding that the back ends multiply by kernels of their own.
struct LawEncoding {
  const char* name;
  decode::Encoding encoding;
};
const std::vector<LawEncoding>& law_encodings();

/// The matrix as it is stored, and as it reads.
struct StoredLaw {
  testing::EncodedWeights stored;
  FloatMatrix decoded;
};
StoredLaw stored_law(const FloatMatrix& matrix, const decode::Encoding& encoding);

/// The largest error of a value, over what is stated, in s_1, and over the promise of `strict` (50
/// p eps64 s_1).
struct LawError {
  double of_stated = 0.0, of_largest = 0.0, of_strict = 0.0;
};
LawError law_error(const std::vector<double>& sigma, const std::vector<double>& reference,
                   double sigma_error);

}  // namespace vindex::test
