// Owns the multiplication by mma.sync, for devices without wgmma: tiles of 128 x 128 of the lower
// triangle,
//
//   G_tile = sum of  factor (float32 sum of SumDepth products in one accumulator)
//
// Sums are cut by the tensor core and totals are rounded by an FMA, which is why sums are short
// (gram_plan.hpp). Why not cuBLAS: it would form the full square, and how long it lets one
// accumulator run is its own affair.
#include "gram_facts.hpp"
#include "gram_products.hpp"
#include "warp_tile.hpp"

#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::kProductsAcross;
using device::kProductsDown;
using device::kStageBytes;
using device::load_fragment;

constexpr int kThreads = device::kProductThreads;
constexpr int kStages = 3;
constexpr int kNormThreads = 256;

template <bool kBfloat16>
__device__ inline void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  if constexpr (kBfloat16) {
    device::mma_bf16(d, a, b);
  } else {
    device::mma_f16(d, a, b);
  }
}

using Sums = float[kProductsDown][kProductsAcross][4];

/// total += sums factor, rounded once, and begins new sums.
__device__ inline void fold(Sums& total, Sums& sums, float factor) {
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        total[i][j][k] = __fmaf_rn(sums[i][j][k], factor, total[i][j][k]);
        sums[i][j][k] = 0.0F;
      }
    }
  }
}

/// Adds the products of 16 steps of the contraction, `sixteen` of the four of a slice, to the sums.
template <typename Products>
__device__ inline void multiply_sixteen(const unsigned char* stage, int sixteen,
                                        const device::WarpPlace& place, Sums& sums) {
  constexpr bool kRows = Products::kContractsRows;
  std::uint32_t b[kProductsAcross][2];
#pragma unroll
  for (int j = 0; j < kProductsAcross; j += 2) {
    std::uint32_t two[4];
    load_fragment<kRows>(
        two, device::fragment_address<kRows>(stage + kOperandTileBytes,
                                             place.first_line_col + 8 * j, sixteen, false));
    b[j][0] = two[0];
    b[j][1] = two[1];
    b[j + 1][0] = two[2];
    b[j + 1][1] = two[3];
  }
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
    std::uint32_t a[4];
    load_fragment<kRows>(
        a, device::fragment_address<kRows>(stage, place.first_line_row + 16 * i, sixteen, true));
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
      multiply<Products::kBfloat16>(sums[i][j], a, b[j]);
    }
  }
}

// Grid: pairs of tiles of the triangle x 1 x matrices. Block: 256. Shared: 96 KiB, three stages of
// two 128 x 64 operand tiles. Bound by: tensor cores (mma.sync) and what reads their operands from
// shared memory.
template <typename Products>
__global__ void __launch_bounds__(kThreads) warp_product_kernel(ProductArguments arguments) {
  const device::TilePair pair = device::tile_pair(blockIdx.x);
  const device::Steps steps(arguments);
  const device::TileElements elements(arguments);
  unsigned char* const shared = device::dynamic_shared();
  const device::WarpPlace place(pair);
  Sums total = {};
  Sums sums = {};
  if (arguments.first_chunk > 0) {
#pragma unroll
    for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
      for (int j = 0; j < kProductsAcross; ++j) {
        elements.read(place.row + 16 * i, place.col + 8 * j, total[i][j][0], total[i][j][1]);
        elements.read(place.row + 16 * i + 8, place.col + 8 * j, total[i][j][2], total[i][j][3]);
      }
    }
  }

  const std::int64_t count = steps.count();
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < count) {
      device::load_step(device::step_tiles(arguments, steps, pair, stage),
                        shared + stage * kStageBytes);
    }
    device::copy_async_commit();
  }
  int stage = 0;
  float factor = 0.0F;
  device::ChunkFactors<1> next_factors(arguments, pair, 1, 0);
  for (std::int64_t step = 0; step < count; ++step) {
    device::copy_async_wait<kStages - 2>();
    __syncthreads();  // the step has landed for all, and all are done with the stage filled next
    const std::int64_t next = step + kStages - 1;
    if (next < count) {
      const int free_stage = stage == 0 ? kStages - 1 : stage - 1;
      device::load_step(device::step_tiles(arguments, steps, pair, next),
                        shared + free_stage * kStageBytes);
    }
    device::copy_async_commit();
    if (step % steps.per_chunk() == 0) {
      factor = next_factors.of(0);
      next_factors = {arguments, pair, 1, step / steps.per_chunk() + 1};
    }
    const bool high = !Products::kPairs || device::step_at(steps, step).high();
    const bool ends_chunk = (step & 1) == 1;
#pragma unroll
    for (int sixteen = 0; sixteen < kSliceDepth / 16; ++sixteen) {
      multiply_sixteen<Products>(shared + stage * kStageBytes, sixteen, place, sums);
      constexpr int kDepth = Products::kSumDepth;
      if ((sixteen + 1) * 16 % (kDepth < kSliceDepth ? kDepth : kSliceDepth) == 0 && high &&
          (kDepth <= kSliceDepth || ends_chunk)) {
        fold(total, sums, factor);
      }
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }

  double norm = 0.0;
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
      norm += elements.write(place.row + 16 * i, place.col + 8 * j, total[i][j][0], total[i][j][1]);
      norm +=
          elements.write(place.row + 16 * i + 8, place.col + 8 * j, total[i][j][2], total[i][j][3]);
    }
  }
  device::copy_async_wait<0>();
  __syncthreads();  // shared memory changes hands
  norm = device::block_sum(norm, kThreads, reinterpret_cast<double*>(shared));
  if (threadIdx.x == 0) {
    arguments.norms[static_cast<std::int64_t>(blockIdx.z) * arguments.tile_pairs + blockIdx.x] =
        norm;
  }
}

// Grid: a block per matrix. Block: 256. Shared: 64 bytes, a sum per warp. Bound by: latency.
__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(const double* norms, std::int64_t tile_pairs, GramFacts* facts) {
  const double* const mine = norms + static_cast<std::int64_t>(blockIdx.x) * tile_pairs;
  double norm = 0.0;
  for (std::int64_t i = threadIdx.x; i < tile_pairs; i += kNormThreads) {
    norm += mine[i];
  }
  norm = device::block_sum(norm, kNormThreads, reinterpret_cast<double*>(device::dynamic_shared()));
  if (threadIdx.x == 0) {
    facts[blockIdx.x].scaled_norm_squared = norm;
  }
}

}  // namespace

void multiply_by_warps(const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.tile_pairs), 1, static_cast<unsigned>(matrices));
  visit_products(plan, contracts_rows, [&]<typename Products>(Products /*products*/) {
    launch(warp_product_kernel<Products>, grid, dim3(kThreads), kStages * kStageBytes, stream,
           arguments);
  });
}

void multiply_operands(ProductKernel kernel, const OperandPlan& plan, bool contracts_rows,
                       const ProductArguments& arguments, std::int64_t matrices,
                       cudaStream_t stream) {
  if (kernel != ProductKernel::kWarp) {
    multiply_by_warpgroups(plan, contracts_rows, arguments, matrices,
                           kernel == ProductKernel::kWarpgroupPairs, stream);
  } else {
    multiply_by_warps(plan, contracts_rows, arguments, matrices, stream);
  }
}

void finish_norms(const ProductArguments& arguments, std::int64_t matrices, GramFacts* facts,
                  cudaStream_t stream) {
  launch(norm_kernel, dim3(static_cast<unsigned>(matrices)), dim3(kNormThreads),
         kNormThreads / 32 * sizeof(double), stream, arguments.norms, arguments.tile_pairs, facts);
}

}  // namespace vindex::kernels
