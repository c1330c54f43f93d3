// Owns the choice of the 16-bit operands that the tensor cores multiply for the Gram matrix of an
// encoded matrix, and the sizes that follow from a shape. Pure: no device is touched.
//
// A weight enters exactly where its significant bits fit the operand, because products of 11-bit or
// 8-bit numbers are exact in float32. What is left is the error of the sums: a tensor core cuts
// what it adds, so a sum of squares comes out low, the more so the longer one accumulator runs and
// the more bits the products have. A fresh accumulator after sum_depth() products, added to the
// total with rounding, keeps the loss below 1e-7: over 7168 normal weights it is 5e-8 for E4M3 with
// 128, 8e-8 for bfloat16 with 64, 1e-7 for 11 bits with 32 (2e-7 and 4e-7 with 128). The diagonal,
// where all products are positive and the loss is largest, is not taken from these sums but from
// sums of squares in float64 (gram_sums.hpp), rounded once.
//   block scaled  e4m3 codes: 4 bits, 2^-9 to 448, exact in binary16 as they are. The scale, one
//                 for a 128 x 128 tile of the matrix, multiplies the finished chunk in float32. So
//                 weights enter as code * scale unrounded, where decoding rounds the product: a
//                 relative 2^-24 of each weight apart, of either sign.
//   half          at most 11 bits. F16, E5M2, 8-bit integers, unscaled E4M3 and +-d of a binary16 d
//                 fit as they are. Symmetric INT4 times a bfloat16 scale (3 + 8 bits), FP4 times a
//                 power of two or a UE4M3 scale (2 + 4 bits) fit after a shift that brings the
//                 largest weight below 2^15: exact down to 2^-28 of it, rounded by at most 2^-40 of
//                 it below, which no float32 result can show.
//   bfloat16      BF16: 8 bits and the exponents of float32; shifted as well, so that products stay
//                 in the range of float32 whatever the scale of the matrix.
//   half pair     high = w rounded to binary16 and low = the rest rounded: 22 bits, exact for Q8_0
//                 (18), Q4_0 (14) and the like, 2^-23 of the weight off for float32 and the K
//                 formats. All four products are formed, low ones first, so that they are truncated
//                 on their own scale.
//   rounded half  w rounded to 11 bits; the sum of squares is off by 1e-6 and var@64 by 7e-7. For
//                 `fast` alone, a quarter of the pair's work.
// Source of the accumulation errors: arXiv 2511.10909 (MMA-Sim); DeepGEMM promotes alike.
#pragma once

#include "core/integers.hpp"
#include "decode/formats/decode_view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vindex::kernels {

/// What the tensor cores multiply.
enum class OperandKind : std::uint8_t { kBlockScaled, kHalf, kBfloat16, kHalfPair, kRoundedHalf };

/// What the operand kernel reads. The formats that hold most large models it reads by itself
/// (gram_sources.hpp); others are decoded to float32 in the workspace first, by decode_matrix().
enum class OperandSource : std::uint8_t { kF32, kF16, kBF16, kScaledE4M3, kScaledInt4, kDecoded };

struct OperandPlan {
  OperandKind kind = OperandKind::kHalfPair;
  OperandSource source = OperandSource::kDecoded;
  /// The exponent of the operands is taken from the largest weight. Otherwise the operands are the
  /// weights (block scaled: the codes, which are then read once, for sums and operands).
  bool shifted = true;
  bool exact = false;  ///< every weight enters exactly (block scaled: before its last rounding)
  std::string_view reason;

  int parts() const { return kind == OperandKind::kHalfPair ? 2 : 1; }
  /// Products that share an accumulator.
  int sum_depth() const {
    return kind == OperandKind::kBlockScaled ? 128 : kind == OperandKind::kBfloat16 ? 64 : 32;
  }
};

/// The operands for a matrix of `encoding`; of `view` only sizes, position, scale geometry and
/// scale type are read. `may_round` allows kRoundedHalf where one term does not hold the weights.
/// An encoding that is not known here gets pairs: right for every decoder, since they see float32.
OperandPlan choose_operands(const decode::Encoding& encoding, const decode::DecodeView& view,
                            bool may_round);

/// What kernel multiplies.
enum class ProductKernel : std::uint8_t {
  kWarp,       ///< mma.sync, every architecture from sm_80
  kWarpgroup,  ///< wgmma, sm_90a only
  /// The same in clusters of two blocks that share what they copy; half pairs as kWarpgroup. Only
  /// on request until a device has judged it.
  kWarpgroupPairs,
};
/// The kernel for a device of this compute capability. Only 9.0 has wgmma.
ProductKernel choose_product_kernel(int major, int minor);

/// Sizes of the Gram of one matrix. The long side is contracted: stored rows where rows >= cols.
struct GramShape {
  static constexpr std::int64_t kTile = 128;      ///< side of an output tile and depth of a chunk
  static constexpr std::int64_t kOrderUnit = 32;  ///< the reductions that follow want multiples

  std::int64_t rows = 0, cols = 0;  ///< as stored

  bool contracts_rows() const { return rows >= cols; }
  std::int64_t short_side() const { return std::min(rows, cols); }
  std::int64_t long_side() const { return std::max(rows, cols); }
  /// Rows and columns of a Gram matrix in memory; beyond short_side() it is zero.
  std::int64_t order() const { return round_up(short_side(), kOrderUnit); }
  std::int64_t gram_elements() const { return order() * order(); }
  std::int64_t tiles() const { return round_up(short_side(), kTile) / kTile; }
  std::int64_t tile_pairs() const { return tiles() * (tiles() + 1) / 2; }
  std::int64_t chunks() const { return round_up(long_side(), kTile) / kTile; }

  static std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return ceil_divide(value, unit) * unit;
  }
};

/// How a batch is cut so that its operands fit a workspace. The cut changes no bit of the result.
struct GramCut {
  std::int64_t matrices_at_once = 1;
  std::int64_t chunks_at_once = 1;  ///< of the contraction; all of them where possible
  std::size_t bytes = 0;            ///< used
};

/// Workspace bytes that hold `matrices` whole (what form_grams() likes; more than
/// kMatricesAtOnce are never held), and the least it works with.
std::size_t gram_workspace_bytes(const GramShape& shape, const OperandPlan& plan,
                                 std::int64_t matrices);
std::size_t min_gram_workspace_bytes(const GramShape& shape, const OperandPlan& plan);

/// The best cut of a batch of `matrices` into `bytes`. Errors: OutOfMemory where even the least
/// does not fit.
GramCut cut_grams(const GramShape& shape, const OperandPlan& plan, std::int64_t matrices,
                  std::size_t bytes);

}  // namespace vindex::kernels
