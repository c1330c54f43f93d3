// Owns a matrix as a product of two thin factors, W' = b a, made of singular triplets that a back
// end finds.
#pragma once

#include <vindex/decode/encoding.hpp>
#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::organ {

/// W' = b a; row-major float32. Each factor has the root of the new singular values.
struct LowRank {
  std::int64_t rows = 0, cols = 0, rank = 0;
  std::vector<float> a;  ///< rank x cols
  std::vector<float> b;  ///< rows x rank
  /// Largest |W^T u - s v| of the triplets over the largest singular value of W.
  double residual = 0.0;
  /// Empty, or why there are no factors: the back end's reason.
  std::string failure;
};

/// The factors of `matrix` with its leading singular values replaced by `kept` (descending order of
/// the old ones, at least one, at most min(rows, cols)). Errors: those of Backend::measure().
LowRank low_rank_of(measure::Backend& backend, const decode::EncodedMatrix& matrix,
                    std::span<const double> kept);

/// b a into `out`, rows x cols.
void multiply_out(const LowRank& factors, std::span<float> out);

}  // namespace vindex::organ
