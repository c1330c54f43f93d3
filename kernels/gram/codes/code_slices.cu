// Owns the multiplication of code_slices.hpp by mma.sync, for every architecture, and its order on
// a stream.
#include "code_operands.hpp"
#include "code_slices.hpp"

#include "kernels/device/launch.hpp"
#include "kernels/gram/warp_tile.hpp"

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::kProductsAcross;
using device::kProductsDown;
using device::kStageBytes;

constexpr int kThreads = device::kProductThreads;
constexpr int kStages = 3;
/// A square of the unit of codes.
constexpr double kUnit = 0x1p-18;

template <typename T>
using Sums = T[kProductsDown][kProductsAcross][4];

/// The steps of a block from its first chunk to its last, and the ring of stages that they pass.
class StepRing {
 public:
  __device__ StepRing(const CodeArguments& arguments, const device::TilePair& pair,
                      unsigned char* shared)
      : shared_(shared), steps_(CodeSteps::count(arguments.parts)), left_(arguments.chunks) {
    const std::int64_t matrix = blockIdx.z;
    row_ = arguments.operands + code_operand(arguments, matrix, pair.row, 0);
    col_ = arguments.operands + code_operand(arguments, matrix, pair.col, 0);
    chunk_bytes_ = arguments.parts * kOperandTileBytes;
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      load(stage);
    }
  }
  /// The stage of the next step, which has landed; begins to load another.
  __device__ const unsigned char* next() {
    device::copy_async_wait<kStages - 2>();
    __syncthreads();  // for all, and all are done with the stage filled next
    load(stage_ == 0 ? kStages - 1 : stage_ - 1);
    const unsigned char* const own = shared_ + stage_ * kStageBytes;
    stage_ = stage_ == kStages - 1 ? 0 : stage_ + 1;
    return own;
  }

 private:
  __device__ void load(int stage) {
    if (left_ > 0) {
      const auto at = [&](std::uint64_t of) {
        return CodeSteps::part(of, step_) * kOperandTileBytes;
      };
      device::load_step({row_ + at(CodeSteps::kRows), col_ + at(CodeSteps::kCols)},
                        shared_ + stage * kStageBytes);
      if (++step_ == steps_) {
        step_ = 0;
        --left_;
        row_ += chunk_bytes_;
        col_ += chunk_bytes_;
      }
    }
    device::copy_async_commit();
  }

  unsigned char* shared_;
  const unsigned char* row_;
  const unsigned char* col_;
  std::int64_t chunk_bytes_;
  int steps_, step_ = 0, stage_ = 0;
  std::int64_t left_;
};

__device__ inline void multiply(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  device::mma_s8(d, a, b);
}
__device__ inline void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  device::mma_f16(d, a, b);
}

/// Adds the products of a stage: 32 bytes of each line to an instruction, whatever they hold.
template <typename T>
__device__ inline void multiply_stage(const unsigned char* stage, const device::WarpPlace& place,
                                      Sums<T>& sums) {
#pragma unroll
  for (int part = 0; part < kOperandRowBytes / 32; ++part) {
    std::uint32_t b[kProductsAcross][2];
#pragma unroll
    for (int j = 0; j < kProductsAcross; j += 2) {
      std::uint32_t two[4];
      device::load_matrix_x4(
          two, device::fragment_address<false>(stage + kOperandTileBytes,
                                               place.first_line_col + 8 * j, part, false));
      b[j][0] = two[0];
      b[j][1] = two[1];
      b[j + 1][0] = two[2];
      b[j + 1][1] = two[3];
    }
#pragma unroll
    for (int i = 0; i < kProductsDown; ++i) {
      std::uint32_t a[4];
      device::load_matrix_x4(
          a, device::fragment_address<false>(stage, place.first_line_row + 16 * i, part, true));
#pragma unroll
      for (int j = 0; j < kProductsAcross; ++j) {
        multiply(sums[i][j], a, b[j]);
      }
    }
  }
}

template <typename Visit>
__device__ inline void for_elements(Visit&& visit) {
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        visit(i, j, k);
      }
    }
  }
}

/// Grid    x: tile pairs of the lower triangle, z: matrices. Block 256 threads, 96 KB of shared
/// memory, so one on a multiprocessor. Bound by shared memory and the barrier of a step, as the
/// same steps of binary16 are (gram_products.cu): 1,024 of some 1,600 cycles.
template <bool kRounded>
__global__ void __launch_bounds__(kThreads) code_product_kernel(CodeArguments arguments) {
  const device::TilePair pair = device::tile_pair(blockIdx.x);
  const device::WarpPlace place(pair);
  StepRing ring(arguments, pair, device::dynamic_shared());
  const TileScale* const scales =
      arguments.scales + static_cast<std::int64_t>(blockIdx.z) * arguments.chunks * arguments.tiles;
  Sums<double> totals = {};
  for (std::int64_t chunk = 0; chunk < arguments.chunks; ++chunk) {
    const TileScale row = scales[chunk * arguments.tiles + pair.row];
    const TileScale col = scales[chunk * arguments.tiles + pair.col];
    const double unit = row.scale * col.scale * kUnit;
    Sums<std::int32_t> sums = {};
#pragma unroll 1
    for (int step = 0; step < CodeSteps::kExact; ++step) {
      multiply_stage(ring.next(), place, sums);
      if (CodeSteps::shifts(step)) {
        for_elements([&](int i, int j, int k) { sums[i][j][k] *= 64; });
      } else if (CodeSteps::folds(step)) {
        const double own = step == CodeSteps::kExact - 1 ? unit : unit * 4096.0;
        for_elements([&](int i, int j, int k) {
          totals[i][j][k] = fma(device::to_double(sums[i][j][k]), own, totals[i][j][k]);
          sums[i][j][k] = 0;
        });
      }
    }
    if constexpr (kRounded) {
      // s u' sum of k r' + s' u sum of r k' = u u' m' (m / m' (the first) + the second).
      const float ratio = device::mantissa_ratio(row, col);
      const double rest = -row.last * col.scale;
      Sums<float> taken = {};
#pragma unroll 1
      for (int step = 0; step < CodeSteps::kRounded - CodeSteps::kExact; ++step) {
        multiply_stage(ring.next(), place, taken);
        if (step == 1) {
          for_elements([&](int i, int j, int k) { taken[i][j][k] *= ratio; });
        }
      }
      for_elements([&](int i, int j, int k) {
        totals[i][j][k] = fma(static_cast<double>(taken[i][j][k]), rest, totals[i][j][k]);
      });
    }
  }
  device::copy_async_wait<0>();
  double* const gram = arguments.grams + static_cast<std::int64_t>(blockIdx.z) * arguments.leading *
                                             arguments.leading;
  for_elements([&](int i, int j, int k) {
    const std::int64_t row = place.row + 16 * i + k / 2 * 8;
    const std::int64_t col = place.col + 8 * j + k % 2;
    if (row < arguments.p && col <= row) {
      gram[col * arguments.leading + row] = totals[i][j][k];
    }
  });
}

struct CodeSizes {
  std::int64_t scales_offset, sums_offset, total_bytes;

  CodeSizes(const GramShape& shape, std::int64_t matrices, int parts) {
    const std::int64_t fields = matrices * shape.tiles() * shape.chunks();
    scales_offset = fields * parts * kOperandTileBytes;
    sums_offset = scales_offset + fields * static_cast<std::int64_t>(sizeof(TileScale));
    total_bytes = sums_offset + fields * GramWorkspace::kSumsBytes;
  }
};

}  // namespace

std::size_t code_gram_bytes(const GramShape& shape, std::int64_t matrices) {
  return static_cast<std::size_t>(CodeSizes(shape, matrices, kRoundedParts).total_bytes);
}

std::int64_t code_grams_at_once(const GramShape& shape, std::int64_t matrices) {
  constexpr std::int64_t kMostBytes = 1LL << 30U;
  const auto each = static_cast<std::int64_t>(code_gram_bytes(shape, 1));
  return std::min({matrices, kCodeMatricesAtOnce, kMostBytes / std::max<std::int64_t>(each, 1)});
}

void form_code_grams(const CodeGramBatch& batch, void* workspace, cudaStream_t stream) {
  const GramShape shape{.rows = batch.views.front().rows, .cols = batch.views.front().cols};
  const int parts = batch.rounded ? kRoundedParts : kExactParts;
  const auto count = static_cast<std::int64_t>(batch.views.size());
  const std::int64_t at_once = code_grams_at_once(shape, count);
  expects(at_once > 0, "form_code_grams: a matrix whose operands are not too large");
  const CodeSizes sizes(shape, at_once, parts);
  auto* const memory = static_cast<unsigned char*>(workspace);
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t own = std::min(at_once, count - first);
    const CodeArguments arguments{
        .operands = memory,
        .scales = reinterpret_cast<TileScale*>(memory + sizes.scales_offset),
        .sums = memory + sizes.sums_offset,
        .grams = batch.grams + first * batch.leading * batch.leading,
        .tiles = shape.tiles(),
        .chunks = shape.chunks(),
        .p = shape.short_side(),
        .leading = batch.leading,
        .parts = parts,
        .report = trap_report(),
        .nothing = 0,
        .wait_cycles = batch.wait_cycles};
    slice_codes(batch, first, own, arguments, stream);
    if (batch.product == ProductKernel::kWarpgroup) {
      multiply_codes_by_warpgroups(arguments, own, stream);
      continue;
    }
    const dim3 grid(static_cast<unsigned>(shape.tile_pairs()), 1, static_cast<unsigned>(own));
    const auto shared = static_cast<std::size_t>(kStages * kStageBytes);
    if (batch.rounded) {
      launch(code_product_kernel<true>, grid, dim3(kThreads), shared, stream, arguments);
    } else {
      launch(code_product_kernel<false>, grid, dim3(kThreads), shared, stream, arguments);
    }
  }
}

}  // namespace vindex::kernels
