// Owns a batch of Gram matrices that are formed of codes.
#pragma once

#include "kernels/decode/decode_matrix.hpp"
#include "kernels/device/trap_report.hpp"
#include "kernels/gram/gram_shape.hpp"

#include <cstdint>
#include <span>

namespace vindex::kernels {

/// Matrices of one launch at most: 136 tile pairs of one of 7168 x 2048 would leave a second wave
/// on 132 multiprocessors nearly empty.
inline constexpr std::int64_t kCodeMatricesAtOnce = 8;

/// What entries err by at most where scales are rounded, in units of the product of their lines'
/// norms: 1.7 times what the self-test's samples show, whose codes are uniform, and six times what
/// normal weights do. Taken for the unit of sums of 128 products (statistics::GramArithmetic).
inline constexpr double kRoundedCodesUnit = 0x1p-46;

/// Matrices of one shape whose operands are block scaled; views of whole matrices, pointers on the
/// device.
struct CodeGramBatch {
  std::span<const decode::DecodeView> views;
  ProductKernel product = ProductKernel::kWarp;
  bool rounded = true;  ///< a scale is CodeScales::kRounded; none is kUnfit
  /// Empty, or one per matrix: the signs of a draw (SignFlip), as GramBatch has them.
  std::span<const std::uint64_t> sign_flip_keys;
  bool transposed = false;
  std::uint64_t sign_flip_draw = 0;
  std::int64_t leading = 0;  ///< between columns of a Gram matrix
  double* grams = nullptr;   ///< [matrix][leading][leading], column-major: lower triangles written
  RawMoments* moments = nullptr;  ///< [matrix][moments_each]: the first has all, others nothing
  std::int64_t moments_each = 1;
  std::uint64_t wait_cycles = kWaitCycles;  ///< after which a kernel that waits in vain ends itself
};

}  // namespace vindex::kernels
