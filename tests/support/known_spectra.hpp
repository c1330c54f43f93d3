// Owns matrices whose spectrum is known or can be had independently: prescribed singular values
// between random orthogonal factors (LAPACK's DLATM1 modes), noise, spikes, and the float64
// reference (LAPACK dgesdd) every promise is tested against. Seeded; the same on every machine but
// for the last bits of the factors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::test {

/// rows x cols floats, row-major.
struct FloatMatrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> values;
  float& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
  float at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * cols + c)];
  }
};

/// Singular values of DLATM1: mode 1 (1, 1/c, ..., 1/c), 2 (1, ..., 1, 1/c), 3 geometric, 4
/// arithmetic, 5 log-uniform random, 6 uniform random; a negative mode reverses the order (the set
/// is the same, the factors see it the other way round). Source: Reference-LAPACK
/// TESTING/MATGEN/dlatm1.f.
std::vector<double> dlatm1_values(int mode, double condition, std::int64_t p, std::uint64_t seed);

/// U diag(values) V^T rounded to float32, U and V random orthogonal.
FloatMatrix matrix_with_spectrum(std::int64_t rows, std::int64_t cols,
                                 std::span<const double> values, std::uint64_t seed);

/// Independent standard normal entries times `scale`.
FloatMatrix gaussian_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                            double scale = 1.0);

/// Noise plus `spikes` rank-one terms of strength t sqrt(max(rows, cols)).
FloatMatrix spiked_matrix(std::int64_t rows, std::int64_t cols, int spikes, double strength,
                          std::uint64_t seed);

FloatMatrix transposed(const FloatMatrix& matrix);

/// Every entry rounded to bfloat16, or to e4m3 times a power of two per 128 x 128 block: what a
/// quantised checkpoint does to a spectrum.
FloatMatrix rounded_to_bf16(const FloatMatrix& matrix);
FloatMatrix rounded_to_e4m3(const FloatMatrix& matrix);

/// All singular values in float64 by LAPACK dgesdd (no vectors), descending.
std::vector<double> reference_singular_values(const FloatMatrix& matrix);

struct NamedMatrix {
  std::string name;
  bool clustered = false;  ///< tight clusters: only the first promise of `default` holds
  FloatMatrix matrix;
};

/// The suite of spectra, each in its shapes: about 40 matrices with p <= 200.
std::vector<NamedMatrix> spectrum_suite();

/// One small matrix (p <= 70) of each kind, for back ends that are slow to run.
std::vector<NamedMatrix> small_spectrum_suite();

}  // namespace vindex::test
