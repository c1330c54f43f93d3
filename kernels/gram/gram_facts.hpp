// Owns what is known of the weights and of a Gram matrix beside it: sums, exponents, norms.
#pragma once

#include "decode/moments.hpp"

#include <cstdint>

namespace vindex::kernels {

/// Sums of w - shift over finite weights, in float64 (squares: of w itself); others are counted.
struct WeightSums {
  std::int64_t count = 0, zeros = 0, nonfinite = 0;
  double power[4] = {};
  double squares = 0.0;
  float min = 0.0F, max = 0.0F;  ///< +inf and -inf where count is 0
};

/// What is known of one matrix; trivially copyable, written on the device. The Gram matrix in
/// memory is 2^-gram_exponent times the true one, so that its largest diagonal entry, and with it
/// its largest entry, lies in [1/2, 1): what the reduction to a band wants (band_reduction.hpp).
/// The diagonal is known before the product is, so nothing is read twice for it.
struct GramFacts {
  WeightSums sums;
  double shift = 0.0;
  double scaled_norm_squared = 0.0;   ///< ||G||_F^2 of the matrix in memory
  std::int32_t exponent = 0;          ///< floor(log2(largest |w|)); 0 for a zero matrix
  std::int32_t operand_exponent = 0;  ///< operands are w 2^-operand_exponent
  std::int32_t gram_exponent = 0;     ///< 0 for a zero matrix
};

decode::Moments moments_of(const GramFacts& facts);
/// ||G||_F^2 of the true Gram matrix; may overflow to infinity or vanish where the weights do.
double gram_norm_squared(const GramFacts& facts);

}  // namespace vindex::kernels
