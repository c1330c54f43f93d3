// Owns how the multiplication by wgmma (gram_products_sm90.cu) cuts its output among blocks and
// threads, and the ring of stages in shared memory through which operands come.
#pragma once

#include "gram_tile.hpp"

#include <cstdint>
#include <warpgroup.hpp>

namespace vindex::kernels::warpgroups {

inline constexpr int kMultiplierThreads = 256;
inline constexpr int kMultiplierWarps = kMultiplierThreads / 32;
inline constexpr int kThreads =
    kMultiplierThreads + 128;  ///< of the last warpgroup one thread copies
inline constexpr int kMultiplierRegisters = 232;
inline constexpr int kCopierRegisters = 40;
static_assert((2 * kMultiplierRegisters + kCopierRegisters) * 32 <= 16384);
inline constexpr int kTileBytes = static_cast<int>(kOperandTileBytes);
/// Eight rows: the unit of the swizzle.
inline constexpr int kGroupBytes = 8 * kOperandRowBytes;
static_assert(kGroupBytes == 1024 && kTileBytes % kGroupBytes == 0 && kPanelBytes % 1024 == 0,
              "every stage, tile and panel is aligned where shared memory is");

/// How the output is cut and what a stage holds: a row tile, then kHalves column tiles.
template <typename Products>
struct Tiling {
  static constexpr int kHalves = Products::kPairs ? 1 : 2;
  static constexpr int kStages = Products::kPairs ? 6 : 4;
  static constexpr int kStageBytes = (1 + kHalves) * kTileBytes;
  static constexpr int kSharedBytes =
      kStages * kStageBytes + (2 * kStages + 1) * static_cast<int>(sizeof(device::SharedBarrier)) +
      kMultiplierWarps * static_cast<int>(sizeof(double));

  static std::int64_t blocks(std::int64_t tiles) {
    const std::int64_t pairs = tiles / 2;
    return kHalves == 1 ? tiles * (tiles + 1) / 2 : (pairs + tiles % 2) * (pairs + 1);
  }
  static std::int64_t paired_blocks(std::int64_t tiles) {
    const std::int64_t pairs = (tiles + 1) / 2;
    return pairs * (pairs + 1);
  }
};

/// The output of a block: the tiles (row, col) and, of two halves, (row, col + 1), in the lower
/// triangle.
struct OutputTiles {
  device::TilePair first;
  int halves;
  int rank = 0;         ///< of the block in its pair
  bool shared = false;  ///< the other block of the pair has the same columns, and gets them too
  bool written = true;  ///< else nobody wants it: a block that only its pair needs
};

/// Where in a stage the column tile of a half lies: on the diagonal it is the row tile, but for
/// pairs, whose parts differ.
template <typename Products>
__device__ inline int column_at(const OutputTiles& output, int half) {
  const bool is_shared = !Products::kPairs && output.first.col + half == output.first.row;
  return is_shared ? 0 : (1 + half) * kTileBytes;
}

template <typename Products, bool Paired>
__device__ inline OutputTiles output_tiles(std::int64_t block, std::int64_t tiles) {
  if constexpr (Paired) {
    const device::TilePair pair = device::tile_pair(block / 2);
    const auto rank = static_cast<int>(block % 2);
    const bool exists = 2 * pair.row + rank < tiles;
    const std::int64_t row = exists ? 2 * pair.row + rank : tiles - 1;
    const std::int64_t col = 2 * pair.col;
    return {{row, col}, col < row ? 2 : 1, rank, pair.col < pair.row, exists};
  } else if constexpr (Tiling<Products>::kHalves == 1) {
    return {device::tile_pair(block), 1};
  } else {
    // Rows 2 q and 2 q + 1 have q + 1 blocks each: as many in all as the pair's index suggests.
    const std::int64_t q = device::tile_pair(block / 2).row;
    const std::int64_t rest = block - q * (q + 1);
    const std::int64_t row = 2 * q + (rest > q ? 1 : 0);
    const std::int64_t col = 2 * (rest > q ? rest - q - 1 : rest);
    return {{row, col}, col < row ? 2 : 1};
  }
}

/// A place in the ring and how often it has been passed.
template <typename Products>
struct Stage {
  int index = 0;
  int parity = 0;
  __device__ void advance() {
    index = index + 1 == Tiling<Products>::kStages ? 0 : index + 1;
    parity ^= index == 0 ? 1 : 0;
  }
};

/// `full` ends a phase when the bytes of a step are there, `empty` when all warps are done with
/// them, `norms_done` when all have left their share of the norm.
template <typename Products>
struct Ring {
  using Tiles = Tiling<Products>;
  unsigned char* stages;
  device::SharedBarrier* full;
  device::SharedBarrier* empty;
  device::SharedBarrier* norms_done;
  double* norms;  ///< [multiplying warp]

  __device__ explicit Ring(unsigned char* shared)
      : stages(shared),
        full(
            reinterpret_cast<device::SharedBarrier*>(shared + Tiles::kStages * Tiles::kStageBytes)),
        empty(full + Tiles::kStages),
        norms_done(empty + Tiles::kStages),
        norms(reinterpret_cast<double*>(norms_done + 1)) {}
  __device__ unsigned char* at(const Stage<Products>& stage) const {
    return stages + stage.index * Tiles::kStageBytes;
  }
};

}  // namespace vindex::kernels::warpgroups
