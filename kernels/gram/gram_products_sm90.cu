// Owns the multiplication by wgmma: a warp copies operand tiles in bulk into a ring of stages, two
// warpgroups multiply them straight out of shared memory. While one folds a finished sum into its
// totals, the other keeps the tensor cores busy.
//
// A block makes 128 x 256 of the output, so that a byte from L2 serves a third more products than
// in 128 x 128. Where blocks are paired, as clusters, two with the same columns each copy one of
// the two column tiles to both, and a byte from L2 serves half as much again; such
// blocks begin and end together. 256 sums and totals of a thread would not fit its registers; 128
// totals and 64 sums do: a warpgroup forms the same sum for the left 128 columns, then, from the
// same stages, for the right ones. Operands of two halves stay at 128 x 128: their sums run over
// all products of a chunk, eight stages that would have to be held. A quarter of a multiprocessor
// has 16384 registers for three of the block's warps, of which the copying one gives up most of its
// share.
#include "gram_products.hpp"
#include "gram_ring.hpp"
#include "gram_tile.hpp"

#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <warpgroup.hpp>

namespace vindex::kernels {

namespace {

using namespace warpgroups;

/// A wait that says in the report, where it is in vain, what for.
[[maybe_unused]] __device__ inline void wait(const ProductArguments& arguments,
                                             device::SharedBarrier* barrier, int parity,
                                             TrapSite site, int stage) {
  device::barrier_wait(
      barrier, parity, arguments.wait_cycles, arguments.report,
      trap_code(site, static_cast<std::uint32_t>(stage), static_cast<std::uint32_t>(parity)));
}

template <typename Products>
__device__ inline void produce(const ProductArguments& arguments, const device::Steps& steps,
                               const OutputTiles& output, const Ring<Products>& ring) {
  const bool shares_tile = column_at<Products>(output, output.halves - 1) == 0;
  const int loaded = output.halves - (shares_tile ? 1 : 0);
  const std::int64_t next_tile = arguments.chunk_count * kSlicesPerChunk * kOperandTileBytes;
  Stage<Products> stage;
  for (std::int64_t step = 0; step < steps.count(); ++step) {
    wait(arguments, ring.empty + stage.index, stage.parity ^ 1, TrapSite::kEmptyStage, stage.index);
    const device::StepTiles tiles = device::step_tiles(arguments, steps, output.first, step);
    unsigned char* const to = ring.at(stage);
    device::SharedBarrier* const full = ring.full + stage.index;
    device::barrier_arrive_expecting(full, (1 + loaded) * kTileBytes);
    device::copy_bulk(to, tiles.row, kTileBytes, full);
    if (output.shared) {
      device::copy_bulk_to_pair(to + (1 + output.rank) * kTileBytes,
                                tiles.col + output.rank * next_tile, kTileBytes, full);
      stage.advance();
      continue;
    }
    for (int half = 0; half < loaded; ++half) {
      device::copy_bulk(to + (1 + half) * kTileBytes, tiles.col + half * next_tile, kTileBytes,
                        full);
    }
    stage.advance();
  }
}

/// What is issued between two waits: half a stage, or a whole one, of which one, or two, make a
/// sum.
template <typename Products>
struct Units {
  static constexpr int kDepth = Products::kSumDepth;
  static constexpr int kSixteens =
      (kDepth < kSliceDepth ? kDepth : static_cast<int>(kSliceDepth)) / 16;
  static constexpr int kPerStage = static_cast<int>(kSliceDepth) / 16 / kSixteens;
  static constexpr int kPerSum = kDepth / 16 / kSixteens;
  static constexpr int kSumsPerChunk = static_cast<int>(GramShape::kTile) / kDepth;
  static constexpr int kLow = 3 * static_cast<int>(kSlicesPerChunk) * kPerStage;
};

/// Issues the products of `kCount` times 16 steps of the contraction, from `first` of the four of a
/// stage, with the column tile at `column`.
template <typename Products, int kCount>
__device__ inline void multiply(float (&sums)[64], const unsigned char* stage, int column,
                                int first, int warpgroup, bool accumulate) {
  // 16 steps further are 16 rows where rows are steps, else 32 bytes of every row.
  constexpr int kSixteenBytes = Products::kContractsRows ? 2 * kGroupBytes : 32;
  constexpr int kPanel = static_cast<int>(kPanelBytes);
  constexpr int kLeading = Products::kContractsRows ? kPanel : 16;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = (first + i) * kSixteenBytes;
    const std::uint64_t a =
        device::operand_descriptor(stage + warpgroup * kPanel + at, kLeading, kGroupBytes);
    const std::uint64_t b = device::operand_descriptor(stage + column + at, kLeading, kGroupBytes);
    if constexpr (Products::kBfloat16) {
      device::warpgroup_mma_bf16<Products::kContractsRows>(sums, a, b, accumulate || i > 0);
    } else {
      device::warpgroup_mma_f16<Products::kContractsRows>(sums, a, b, accumulate || i > 0);
    }
  }
}

/// Where columns are shared, the stage is free when both blocks are done with it: either may write
/// to it then.
template <typename Products>
__device__ inline void release(const Ring<Products>& ring, const Stage<Products>& stage,
                               const OutputTiles& output) {
  if (threadIdx.x % 32 == 0) {
    device::barrier_arrive(ring.empty + stage.index);
  } else if (threadIdx.x % 32 == 1 && output.shared) {
    device::barrier_arrive_at(ring.empty + stage.index, output.rank ^ 1);
  }
}

/// Calls `visit(elements, row, col, j)` for the neighbours that sums[j] and sums[j + 1] are.
template <typename Visit>
__device__ inline void for_pairs(const ProductArguments& arguments, const OutputTiles& output,
                                 int half, Visit&& visit) {
  const device::TileElements elements(arguments);
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = output.first.row * GramShape::kTile + thread / 32 * 16 + thread % 32 / 4;
  const std::int64_t col = (output.first.col + half) * GramShape::kTile + thread % 4 * 2;
#pragma unroll
  for (int j = 0; j < 64; j += 2) {
    visit(elements, row + j % 4 * 4, col + j / 4 * 8, j);
  }
}

/// The work of a multiplying thread; returns its share of ||G||_F^2.
template <typename Products>
__device__ inline double consume(const ProductArguments& arguments, const device::Steps& steps,
                                 const OutputTiles& output, const Ring<Products>& ring) {
  using Unit = Units<Products>;
  constexpr int kHalves = Tiling<Products>::kHalves;
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  float total[kHalves][64] = {};
  if (arguments.first_chunk > 0) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      for_pairs(arguments, output, half,
                [&](const device::TileElements& elements, std::int64_t row, std::int64_t col,
                    int j) { elements.read(row, col, total[half][j], total[half][j + 1]); });
    }
  }
  float sums[64] = {};
  Stage<Products> stage;
  int part = 0;  // which unit of the stage
  device::ChunkFactors<kHalves> next(arguments, output.first, output.halves, 0);
  // One place issues products, and no branch stands between it and the waits: ptxas would run the
  // products one by one otherwise (C7514 and the like).
  for (std::int64_t chunk = 0; chunk < steps.chunk_count; ++chunk) {
    const device::ChunkFactors<kHalves> factors = next;
    next = {arguments, output.first, output.halves, chunk + 1};
    for (int sum = 0; sum < Unit::kSumsPerChunk; ++sum) {
      const int units = Unit::kPerSum + (Products::kPairs && sum == 0 ? Unit::kLow : 0);
      Stage<Products> end = stage;
      int end_part = part;
      for (int half = 0; half < output.halves; ++half) {
        const bool is_last = kHalves == 1 || half + 1 == output.halves;
        const int column = column_at<Products>(output, half);
        end = stage;
        end_part = part;
        Stage<Products> previous = stage;
        bool release_previous = false;
        for (int unit = 0; unit < units; ++unit) {
          if (end_part == 0) {
            wait(arguments, ring.full + end.index, end.parity, TrapSite::kFullStage, end.index);
          }
          device::hold_sums(sums);
          device::warpgroup_fence();
          multiply<Products, Unit::kSixteens>(sums, ring.at(end), column,
                                              end_part * Unit::kSixteens, warpgroup, unit > 0);
          device::warpgroup_commit();
          device::hold_sums(sums);
          if (unit > 0) {
            device::warpgroup_wait<1>();
            if (release_previous) {
              release(ring, previous, output);
            }
          }
          previous = end;
          const bool ends_stage = end_part + 1 == Unit::kPerStage;
          release_previous = ends_stage && is_last;
          end_part = ends_stage ? 0 : end_part + 1;
          if (ends_stage) {
            end.advance();
          }
        }
        device::warpgroup_wait<0>();
        device::hold_sums(sums);
        if (release_previous) {
          release(ring, previous, output);
        }
#pragma unroll
        for (int h = 0; h < kHalves; ++h) {
          if (kHalves == 1 || half == h) {
            const float factor = factors.of(h);
#pragma unroll
            for (int j = 0; j < 64; ++j) {
              total[h][j] = __fmaf_rn(sums[j], factor, total[h][j]);
            }
          }
        }
      }
      stage = end;
      part = end_part;
    }
  }

  double norm = 0.0;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    if (half < output.halves && output.written) {
      for_pairs(
          arguments, output, half,
          [&](const device::TileElements& elements, std::int64_t row, std::int64_t col, int j) {
            norm += elements.write(row, col, total[half][j], total[half][j + 1]);
          });
    }
  }
  return norm;
}

/// The shares of all multiplying threads, in a fixed order, to the block's tiles.
template <typename Products>
__device__ inline void finish_norm(const ProductArguments& arguments, const OutputTiles& output,
                                   const Ring<Products>& ring, double norm) {
  for (int offset = 16; offset > 0; offset /= 2) {
    norm += __shfl_down_sync(0xFFFFFFFFU, norm, offset);
  }
  if (threadIdx.x % 32 == 0) {
    ring.norms[threadIdx.x / 32] = norm;
    device::barrier_arrive(ring.norms_done);
  }
  if (threadIdx.x == 0 && output.written) {
    wait(arguments, ring.norms_done, 0, TrapSite::kNorms, 0);
    for (int warp = 1; warp < kMultiplierWarps; ++warp) {
      norm += ring.norms[warp];
    }
    const device::TilePair& first = output.first;
    double* const norms = arguments.norms +
                          static_cast<std::int64_t>(blockIdx.z) * arguments.tile_pairs +
                          first.row * (first.row + 1) / 2 + first.col;
    norms[0] = norm;
    if (output.halves == 2) {
      norms[1] = 0.0;  // the first has both
    }
  }
}

// Grid: Tiling::blocks(), or paired_blocks() in clusters of two, x 1 x matrices. Block: 384, two
// warpgroups that multiply and one whose first thread copies. Shared: Tiling::kSharedBytes, 192 KiB
// of stages and barriers. Bound by: the tensor cores (58 % of their peak on an H100) and what L2
// brings of operands, 48 KiB of a block per 128 x 256 x 64 products, 32 where columns are shared.
template <typename Products, bool Paired>
__global__ void __launch_bounds__(kThreads, 1)
    warpgroup_product_kernel(ProductArguments arguments) {
  if constexpr (device::kHasWarpgroups) {
    unsigned char* const shared = device::dynamic_shared();
    const Ring<Products> ring(shared);
    const OutputTiles output = output_tiles<Products, Paired>(blockIdx.x, arguments.tiles);
    const device::Steps steps(arguments);
    if (threadIdx.x == 0) {
      device::require_swizzle_alignment(shared, arguments.report,
                                        trap_code(TrapSite::kAlignment, 0, 0));
      for (int stage = 0; stage < Tiling<Products>::kStages; ++stage) {
        device::barrier_init(ring.full + stage, 1);
        device::barrier_init(ring.empty + stage, kMultiplierWarps * (output.shared ? 2 : 1));
      }
      device::barrier_init(ring.norms_done, kMultiplierWarps);
      device::barrier_init_fence();
    }
    if constexpr (Paired) {
      device::cluster_meet();
    } else {
      __syncthreads();
    }
    if (threadIdx.x >= kMultiplierThreads) {
      device::warpgroup_give_registers<kCopierRegisters>();
      if (threadIdx.x == kMultiplierThreads) {
        produce(arguments, steps, output, ring);
      }
    } else {
      device::warpgroup_take_registers<kMultiplierRegisters>();
      finish_norm(arguments, output, ring, consume(arguments, steps, output, ring));
    }
    if constexpr (Paired) {
      device::cluster_meet();  // the other block has arrived at this one's barriers for the last
                               // time
    }
  }
}

}  // namespace

void multiply_by_warpgroups(const OperandPlan& plan, bool contracts_rows,
                            const ProductArguments& arguments, std::int64_t matrices, bool in_pairs,
                            cudaStream_t stream) {
  visit_products(plan, contracts_rows, [&]<typename Products>(Products /*products*/) {
    using Tiles = Tiling<Products>;
    const auto start = [&](Blocks blocks, auto kernel, std::int64_t count) {
      launch(blocks, kernel, dim3(static_cast<unsigned>(count), 1, static_cast<unsigned>(matrices)),
             dim3(kThreads), Tiles::kSharedBytes, stream, arguments);
    };
    if constexpr (Tiles::kHalves == 2) {
      if (in_pairs) {
        start(Blocks::kPairs, warpgroup_product_kernel<Products, true>,
              Tiles::paired_blocks(arguments.tiles));
        return;
      }
    }
    start(Blocks::kApart, warpgroup_product_kernel<Products, false>,
          Tiles::blocks(arguments.tiles));
  });
}

}  // namespace vindex::kernels
