// Owns what a Gram matrix is formed of: the kind and source of its operands, the kernel of its
// products, and its sides.
#pragma once

#include "core/integers.hpp"
#include "kernels/decode/operand_source.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace vindex::kernels {

/// What the tensor cores multiply.
enum class OperandKind : std::uint8_t { kBlockScaled, kHalf, kBfloat16, kHalfPair, kRoundedHalf };

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

/// What kernel multiplies.
enum class ProductKernel : std::uint8_t {
  kWarp,       ///< mma.sync, every architecture from sm_80
  kWarpgroup,  ///< wgmma, sm_90a only
  /// The same in clusters of two blocks that share what they copy; half pairs as kWarpgroup. Only
  /// on request until a device has judged it.
  kWarpgroupPairs,
};

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

}  // namespace vindex::kernels
