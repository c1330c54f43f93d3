// Owns how a block of eight warps multiplies two operand tiles with mma.sync, whatever the numbers
// are: who loads what, the addresses of fragments, and which elements of the output a thread holds.
#pragma once

#include "gram_tile.hpp"

#include <cstdint>
#include <intrinsics.hpp>

namespace vindex::kernels::device {

// Two warps by four, each 64 x 32 of the output. With 64 sums of a part and 64 of the whole in
// registers a multiprocessor holds one block, and latency is hidden by sixteen independent
// products.
inline constexpr int kProductThreads = 256;
inline constexpr int kStageBytes = static_cast<int>(2 * kOperandTileBytes);
inline constexpr int kProductsDown = 4, kProductsAcross = 4;  ///< 16 x 8 each

/// Where a warp's 64 x 32 lie in the tile, and the thread's first element in the Gram matrix. Of
/// product (i, j) a thread holds rows `row` + 16 i and 8 more, columns `col` + 8 j and the next.
struct WarpPlace {
  int first_line_row, first_line_col;
  std::int64_t row, col;

  __device__ explicit WarpPlace(const TilePair& pair) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    first_line_row = warp / 4 * 64;
    first_line_col = warp % 4 * 32;
    row = pair.row * GramShape::kTile + first_line_row + lane / 4;
    col = pair.col * GramShape::kTile + first_line_col + lane % 4 * 2;
  }
};

/// Loads the two operand tiles of a step; a thread copies sixteen pieces of 16 bytes.
__device__ inline void load_step(const StepTiles& tiles, unsigned char* stage) {
  constexpr int kPieces = static_cast<int>(kOperandTileBytes / 16);
#pragma unroll
  for (int i = 0; i < kPieces / kProductThreads; ++i) {
    const int at = (i * kProductThreads + static_cast<int>(threadIdx.x)) * 16;
    copy_async_16(stage + at, tiles.row + at);
    copy_async_16(stage + kOperandTileBytes + at, tiles.col + at);
  }
}

/// The address a lane gives to ldmatrix for 16 lines (from `line`, a multiple of 16) by 16 steps of
/// the contraction (`sixteen`: which). With `lines_first` matrices 0, 1 differ in lines and 0, 2 in
/// steps, as fragments of A want; else the other way round, as two fragments of B want.
template <bool kContractsRows>
__device__ inline const unsigned char* fragment_address(const unsigned char* tile, int line,
                                                        int sixteen, bool lines_first) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int matrix = lane / 8;
  const int line_half = lines_first ? matrix % 2 : matrix / 2;
  const int step_half = lines_first ? matrix / 2 : matrix % 2;
  if constexpr (kContractsRows) {
    const int row = line / 64 * 64 + sixteen * 16 + step_half * 8 + lane % 8;
    return tile + operand_piece(row, line % 64 / 8 + line_half);
  } else {
    const int row = line + line_half * 8 + lane % 8;
    return tile + operand_piece(row, sixteen * 2 + step_half);
  }
}

template <bool kContractsRows>
__device__ inline void load_fragment(std::uint32_t (&registers)[4], const unsigned char* address) {
  if constexpr (kContractsRows) {
    load_matrix_x4_transposed(registers, address);
  } else {
    load_matrix_x4(registers, address);
  }
}

}  // namespace vindex::kernels::device
