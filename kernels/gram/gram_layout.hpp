// Owns where operands lie, in global memory and, copied as they are, in shared memory, so that one
// bulk copy moves what a multiplication step needs.
//
// An operand tile is 128 lines of the short side by a slice of 64 of the contraction, 16 KiB: 128
// rows of 128 bytes, of which row r has its eight pieces of 16 bytes exchanged by xor with r mod 8.
// That is the 128-byte swizzle of wgmma, and it spreads the eight rows that ldmatrix reads over all
// banks.
//   contracted over stored columns ("K-major"):  row = line, within it 64 steps of the contraction
//   contracted over stored rows ("MN-major"):    row = 64 (line / 64) + step, within it 64 lines
// So a run of stored columns is contiguous either way and nothing is transposed.
// Tiles are ordered [matrix][part][tile of the short side][slice of the contraction].
//
// Source: PTX ISA, "Asynchronous warpgroup level matrix shared memory layout"; CUTLASS
// include/cute/atom/mma_traits_sm90_gmma.hpp (canonical layouts of descriptors).
#pragma once

#include "gram_shape.hpp"

#include "core/portable.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

inline constexpr std::int64_t kMatricesAtOnce = 32;  ///< their views are arguments of a kernel
inline constexpr std::int64_t kSliceDepth = 64;
inline constexpr std::int64_t kSlicesPerChunk = GramShape::kTile / kSliceDepth;
inline constexpr std::int64_t kOperandTileBytes = GramShape::kTile * kSliceDepth * 2;
inline constexpr std::int64_t kPanelBytes = kOperandTileBytes / 2;  ///< 64 lines
inline constexpr int kOperandRowBytes = 128;

/// Byte in its tile of the 16-byte piece `piece` (0..7) of row `row` (0..127).
VINDEX_HD constexpr std::int64_t operand_piece(std::int64_t row, std::int64_t piece) {
  return row * kOperandRowBytes + ((piece ^ (row & 7)) << 4);
}

/// Byte in its tile of the element at line `line` (0..127) and step `step` (0..63).
VINDEX_HD constexpr std::int64_t operand_byte(bool contracts_rows, std::int64_t line,
                                              std::int64_t step) {
  const std::int64_t row = contracts_rows ? line / 64 * 64 + step : line;
  const std::int64_t within = contracts_rows ? line % 64 : step;
  return operand_piece(row, within / 8) + within % 8 * 2;
}

/// The parts of the workspace, in this order, each aligned for bulk copies.
struct GramWorkspace {
  static constexpr std::int64_t kAlign = 1024;

  std::int64_t part_bytes = 0;          ///< operands of one part (high or low) of one matrix
  std::int64_t matrix_bytes = 0;        ///< all its parts
  std::int64_t sums_offset = 0;         ///< WeightSums [matrix][chunk][tile]
  std::int64_t factors_offset = 0;      ///< float [matrix][chunk][tile]
  std::int64_t row_factors_offset = 0;  ///< the same, with the scale of the Gram matrix
  std::int64_t squares_offset = 0;      ///< double [matrix][chunk][line]: sums of squares
  std::int64_t diagonals_offset = 0;    ///< float [matrix][order]
  std::int64_t norms_offset = 0;        ///< double [matrix][tile pair]
  std::int64_t decoded_offset = 0;  ///< float32 [matrix][row][decoded_stride], where decoded first
  std::int64_t decoded_stride = 0;
  std::int64_t total_bytes = 0;

  static constexpr std::int64_t kSumsBytes = 72;  ///< of one WeightSums

  GramWorkspace(const GramShape& shape, const OperandPlan& plan, std::int64_t matrices,
                std::int64_t chunks_at_once) {
    const auto aligned = [](std::int64_t bytes) { return GramShape::round_up(bytes, kAlign); };
    const std::int64_t fields = matrices * shape.chunks() * shape.tiles();
    part_bytes = shape.tiles() * chunks_at_once * kSlicesPerChunk * kOperandTileBytes;
    matrix_bytes = plan.parts() * part_bytes;
    sums_offset = matrices * matrix_bytes;
    factors_offset = sums_offset + aligned(fields * kSumsBytes);
    row_factors_offset =
        factors_offset + aligned(fields * static_cast<std::int64_t>(sizeof(float)));
    squares_offset =
        row_factors_offset + aligned(fields * static_cast<std::int64_t>(sizeof(float)));
    diagonals_offset = squares_offset + aligned(fields * GramShape::kTile *
                                                static_cast<std::int64_t>(sizeof(double)));
    norms_offset = diagonals_offset +
                   aligned(matrices * shape.order() * static_cast<std::int64_t>(sizeof(float)));
    decoded_offset = norms_offset + aligned(matrices * shape.tile_pairs() *
                                            static_cast<std::int64_t>(sizeof(double)));
    decoded_stride = GramShape::round_up(shape.cols, 4);
    const bool decoded = plan.source == OperandSource::kDecoded;
    total_bytes = decoded_offset + (decoded ? matrices * decoded_bytes(shape) : 0);
  }

  /// Of one matrix.
  std::int64_t decoded_bytes(const GramShape& shape) const {
    return GramShape::round_up(
        shape.rows * decoded_stride * static_cast<std::int64_t>(sizeof(float)), kAlign);
  }

  static std::size_t bytes(const GramShape& shape, const OperandPlan& plan, std::int64_t matrices,
                           std::int64_t chunks_at_once) {
    return static_cast<std::size_t>(
        GramWorkspace(shape, plan, matrices, chunks_at_once).total_bytes);
  }
};

}  // namespace vindex::kernels
