// The multiplication by wgmma: a warp copies operand tiles in bulk into a ring of stages, two
// warpgroups of 64 x 128 output each multiply them straight out of shared memory. While one folds a
// finished chunk into its totals, the other keeps the tensor cores busy.
#include "device/launch.hpp"
#include "gram/gram_tile.hpp"

#include <vindex/core/error.hpp>

#include <warpgroup.hpp>

namespace vindex::kernels {

namespace {

constexpr int kMultiplierThreads = 256;
constexpr int kMultiplierWarps = kMultiplierThreads / 32;
constexpr int kThreads = kMultiplierThreads + 32;
constexpr int kStages = 6;
constexpr int kTileBytes = static_cast<int>(kOperandTileBytes);
constexpr int kStageBytes = 2 * kTileBytes;
constexpr int kSharedBytes =
    kStages * kStageBytes + 2 * kStages * static_cast<int>(sizeof(device::SharedBarrier));
/// Eight rows: the unit of the swizzle.
[[maybe_unused]] constexpr int kGroupBytes = 8 * kOperandRowBytes;
static_assert(kGroupBytes == 1024 && kTileBytes % kGroupBytes == 0 && kPanelBytes % 1024 == 0,
              "every stage, tile and panel is aligned where shared memory is");

/// A place in the ring and how often it has been passed.
struct Stage {
  int index = 0;
  int parity = 0;
  __device__ void advance() {
    index = index + 1 == kStages ? 0 : index + 1;
    parity ^= index == 0 ? 1 : 0;
  }
};

/// `full` ends a phase when the bytes of a step are there, `empty` when all warps are done with
/// them.
struct Ring {
  unsigned char* stages;
  device::SharedBarrier* full;
  device::SharedBarrier* empty;

  __device__ explicit Ring(unsigned char* shared)
      : stages(shared),
        full(reinterpret_cast<device::SharedBarrier*>(shared + kStages * kStageBytes)),
        empty(full + kStages) {}
};

__device__ inline void produce(const ProductArguments& arguments, const device::Steps& steps,
                               const device::TilePair& pair, const Ring& ring) {
  Stage stage;
  for (std::int64_t step = 0; step < steps.count(); ++step) {
    device::barrier_wait(ring.empty + stage.index, stage.parity ^ 1);
    const device::StepTiles tiles = device::step_tiles(arguments, steps, pair, step);
    unsigned char* const to = ring.stages + stage.index * kStageBytes;
    device::SharedBarrier* const full = ring.full + stage.index;
    device::barrier_arrive_expecting(full, kStageBytes);
    device::copy_bulk(to, tiles.row, kTileBytes, full);
    device::copy_bulk(to + kTileBytes, tiles.col, kTileBytes, full);
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
/// stage.
template <typename Products, int kCount>
__device__ inline void multiply(float (&sums)[64], const unsigned char* stage, int first,
                                int warpgroup, bool accumulate) {
  // 16 steps further are 16 rows where rows are steps, else 32 bytes of every row.
  constexpr int kSixteenBytes = Products::kContractsRows ? 2 * kGroupBytes : 32;
  constexpr int kPanel = static_cast<int>(kPanelBytes);
  constexpr int kLeading = Products::kContractsRows ? kPanel : 16;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = (first + i) * kSixteenBytes;
    const std::uint64_t a =
        device::operand_descriptor(stage + warpgroup * kPanel + at, kLeading, kGroupBytes);
    const std::uint64_t b =
        device::operand_descriptor(stage + kTileBytes + at, kLeading, kGroupBytes);
    if constexpr (Products::kBfloat16) {
      device::warpgroup_mma_bf16<Products::kContractsRows>(sums, a, b, accumulate || i > 0);
    } else {
      device::warpgroup_mma_f16<Products::kContractsRows>(sums, a, b, accumulate || i > 0);
    }
  }
}

[[maybe_unused]] __device__ inline void release(const Ring& ring, const Stage& stage) {
  if (threadIdx.x % 32 == 0) {
    device::barrier_arrive(ring.empty + stage.index);
  }
}

/// Calls `visit(elements, row, col, j)` for the neighbours that sums[j] and sums[j + 1] are.
template <typename Visit>
__device__ inline void for_pairs(const ProductArguments& arguments, const device::TilePair& pair,
                                 Visit&& visit) {
  const device::TileElements elements(arguments);
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = pair.row * GramShape::kTile + thread / 32 * 16 + thread % 32 / 4;
  const std::int64_t col = pair.col * GramShape::kTile + thread % 4 * 2;
#pragma unroll
  for (int j = 0; j < 64; j += 2) {
    visit(elements, row + j % 4 * 4, col + j / 4 * 8, j);
  }
}

/// The work of a multiplying thread; returns its share of ||G||_F^2.
template <typename Products>
__device__ inline double consume(const ProductArguments& arguments, const device::Steps& steps,
                                 const device::TilePair& pair, const Ring& ring) {
  const int warpgroup = static_cast<int>(threadIdx.x / 128);
  float total[64] = {};
  if (arguments.first_chunk > 0) {
    for_pairs(arguments, pair,
              [&](const device::TileElements& elements, std::int64_t row, std::int64_t col, int j) {
                elements.read(row, col, total[j], total[j + 1]);
              });
  }
  float sums[64] = {};
  Stage stage;
  int part = 0;  // which unit of the stage
  // One place issues products, and no branch stands between it and the waits: ptxas would run the
  // products one by one otherwise (C7514 and the like).
  for (std::int64_t chunk = 0; chunk < steps.chunk_count; ++chunk) {
    const float factor = device::chunk_factor(arguments, pair, chunk);
    for (int sum = 0; sum < Units<Products>::kSumsPerChunk; ++sum) {
      const int units =
          Units<Products>::kPerSum + (Products::kPairs && sum == 0 ? Units<Products>::kLow : 0);
      Stage previous = stage;
      bool release_previous = false;
      for (int unit = 0; unit < units; ++unit) {
        if (part == 0) {
          device::barrier_wait(ring.full + stage.index, stage.parity);
        }
        device::hold_sums(sums);
        device::warpgroup_fence();
        multiply<Products, Units<Products>::kSixteens>(
            sums, ring.stages + stage.index * kStageBytes, part * Units<Products>::kSixteens,
            warpgroup, unit > 0);
        device::warpgroup_commit();
        device::hold_sums(sums);
        if (unit > 0) {
          device::warpgroup_wait<1>();
          if (release_previous) {
            release(ring, previous);
          }
        }
        previous = stage;
        release_previous = part + 1 == Units<Products>::kPerStage;
        part = release_previous ? 0 : part + 1;
        if (release_previous) {
          stage.advance();
        }
      }
      device::warpgroup_wait<0>();
      device::hold_sums(sums);
      if (release_previous) {
        release(ring, previous);
      }
#pragma unroll
      for (int j = 0; j < 64; ++j) {
        total[j] = __fmaf_rn(sums[j], factor, total[j]);
      }
    }
  }

  double norm = 0.0;
  for_pairs(arguments, pair,
            [&](const device::TileElements& elements, std::int64_t row, std::int64_t col, int j) {
              norm += elements.write(row, col, total[j], total[j + 1]);
            });
  return norm;
}

template <typename Products>
__global__ void __launch_bounds__(kThreads) warpgroup_product_kernel(ProductArguments arguments) {
  if constexpr (device::kHasWarpgroups) {
    unsigned char* const shared = device::dynamic_shared();
    const Ring ring(shared);
    const device::TilePair pair = device::tile_pair(blockIdx.x);
    const device::Steps steps(arguments);
    if (threadIdx.x == 0) {
      device::require_swizzle_alignment(shared);
      for (int stage = 0; stage < kStages; ++stage) {
        device::barrier_init(ring.full + stage, 1);
        device::barrier_init(ring.empty + stage, kMultiplierWarps);
      }
      device::barrier_init_fence();
    }
    __syncthreads();
    double norm = 0.0;
    if (threadIdx.x < kMultiplierThreads) {
      norm = consume<Products>(arguments, steps, pair, ring);
    } else if (threadIdx.x == kMultiplierThreads) {
      produce(arguments, steps, pair, ring);
    }
    __syncthreads();  // shared memory changes hands
    norm = device::block_sum(norm, kThreads, reinterpret_cast<double*>(shared));
    if (threadIdx.x == 0) {
      arguments.norms[static_cast<std::int64_t>(blockIdx.z) * arguments.tile_pairs + blockIdx.x] =
          norm;
    }
  }
}

}  // namespace

void multiply_by_warpgroups(const OperandPlan& plan, bool contracts_rows,
                            const ProductArguments& arguments, std::int64_t matrices,
                            cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.tile_pairs), 1, static_cast<unsigned>(matrices));
  visit_products(plan, contracts_rows, [&]<typename Products>(Products /*products*/) {
    launch(warpgroup_product_kernel<Products>, grid, dim3(kThreads), kSharedBytes, stream,
           arguments);
  });
}

}  // namespace vindex::kernels
