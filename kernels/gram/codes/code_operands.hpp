// Owns the operands of code_slices.hpp on the device, and the steps in which a chunk multiplies
// them: what its two multiplication kernels (mma.sync, wgmma) share.
//
// Operands lie as [matrix][tile][chunk][part], parts of 16 KiB as gram_layout.hpp has those that
// are contracted over stored columns: 128 lines of 128 bytes, which are 128 steps of a digit or 64
// of a binary16 number.
#pragma once

#include "code_batch.hpp"

#include "core/portable.hpp"
#include "kernels/device/trap_report.hpp"
#include "kernels/gram/gram_layout.hpp"

#include <cstdint>

namespace vindex::kernels {

/// Parts of an operand.
inline constexpr int kLowDigit = 0, kMiddleDigit = 1, kHighDigit = 2;
inline constexpr int kCodeHalves = 3;      ///< and 4: codes, the first 64 steps and the others
inline constexpr int kRoundingHalves = 5;  ///< and 6: what rounding took, in units of 2^9 r
inline constexpr int kExactParts = 3, kRoundedParts = 7;

/// What the sums of a chunk are multiplied with, by tile. The scale is NaN where a weight is not
/// finite.
struct TileScale {
  double scale;    ///< mantissa * last, up to 28 bits
  double last;     ///< its last place; 0 under a scale of 0
  float mantissa;  ///< 2^23 and more, of either sign; 1 under a scale of 0
  float inverse;   ///< of it
};

/// Where they are, and what the kernels need to know; by value.
struct CodeArguments {
  unsigned char* operands;
  TileScale* scales;  ///< [matrix][chunk][tile]
  void* sums;         ///< WeightSums [matrix][chunk][tile]
  double* grams;      ///< [matrix][leading][leading]
  std::int64_t tiles, chunks, p, leading;
  int parts;
  TrapReport* report;     ///< for a kernel that ends itself
  std::uint32_t nothing;  ///< 0
  std::uint64_t wait_cycles = kWaitCycles;
};

/// Parts of rows and of columns that a step multiplies, four bits for each of the thirteen, first
/// steps lowest: h h | h m, m h | h l, m m, l h | m l, l m | l l | codes with what rounding took,
/// that with codes.
struct CodeSteps {
  static constexpr std::uint64_t kRows = 0x6543001012122ULL;
  static constexpr std::uint64_t kCols = 0x4365010210212ULL;
  static constexpr int kExact = 9, kRounded = 13;

  static constexpr int count(int parts) { return parts == kRoundedParts ? kRounded : kExact; }
  VINDEX_HD static constexpr int part(std::uint64_t of, int step) {
    return static_cast<int>(of >> (4 * step) & 15U);
  }
  /// Whether the sums are then multiplied with 64, so that those of the next weight add up in
  /// place.
  VINDEX_HD static constexpr bool shifts(int step) { return step == 0 || step == 2 || step == 7; }
  /// Whether they are then added to the totals, and begin anew.
  VINDEX_HD static constexpr bool folds(int step) { return step == 5 || step == 8; }
};

/// The sums of digits times each other stay within 31 bits.
constexpr bool sums_fit() {
  constexpr std::int64_t kSteps = 128;
  constexpr std::int64_t kHigh = 448 * 512 / 4096;
  constexpr std::int64_t kLow = 32;
  constexpr std::int64_t kFirst = kSteps * (64 * kHigh * kHigh + 2 * kHigh * kLow);
  return 64 * kFirst + kSteps * (2 * kHigh * kLow + kLow * kLow) < 1LL << 31U;
}
static_assert(sums_fit());

/// The first byte of a part.
VINDEX_HD inline std::int64_t code_operand(const CodeArguments& arguments, std::int64_t matrix,
                                           std::int64_t tile, std::int64_t chunk) {
  return ((matrix * arguments.tiles + tile) * arguments.chunks + chunk) * arguments.parts *
         kOperandTileBytes;
}

namespace device {

/// The number, without the conversion unit, which is a quarter as fast as additions: its bits with
/// the sign turned are the lower word of 2^52 + 2^31 + number.
__device__ inline double to_double(std::int32_t number) {
  const auto low = static_cast<std::uint32_t>(number) ^ 0x80000000U;
  return bits_as<double>(0x4330000000000000ULL | low) - (0x1p+52 + 0x1p+31);
}

/// row.mantissa / col.mantissa to the last place, without a division, whose rare cases are a call.
__device__ inline float mantissa_ratio(const TileScale& row, const TileScale& col) {
  const float rough = row.mantissa * col.inverse;
  return fmaf(fmaf(-rough, col.mantissa, row.mantissa), col.inverse, rough);
}

}  // namespace device

/// Up to kCodeMatricesAtOnce matrices from the batch's `first` to `arguments`, and their moments.
/// Grid    x: 128 x 128 tiles of the matrix, z: matrices; then a block per matrix.
void slice_codes(const CodeGramBatch& batch, std::int64_t first, std::int64_t count,
                 const CodeArguments& arguments, cudaStream_t stream);

/// The products of operands to Gram matrices, on sm_90a alone.
void multiply_codes_by_warpgroups(const CodeArguments& arguments, std::int64_t matrices,
                                  cudaStream_t stream);

}  // namespace vindex::kernels
