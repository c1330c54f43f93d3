// Owns the way from the sums of tiles (gram_operands.cu) to what is known of each matrix: its
// facts, the factors of its tiles and the diagonal of its Gram matrix.
//
// The largest weight decides the exponent of the operands, below 2^15 so that binary16 holds them.
// The diagonal is sum w^2 in float64, since a tensor core cuts the sums of positive terms
// (gram_plan.hpp): first with the largest weight counted as 1 to 2, then scaled to below 1 by a
// power of two, which the factors of the rows have too. So the Gram matrix is written scaled, with
// the bits that it would have if it were scaled afterwards, but for entries below 2^-126 times the
// largest before that.
#include "gram_facts.hpp"
#include "gram_layout.hpp"
#include "gram_operands.hpp"
#include "gram_sums.hpp"

#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

constexpr int kLargestHalfExponent = 14;  ///< operands below 2^15: nothing rounds to infinity
/// Factors of blocks that hold a weight stay below 2^11; those of blocks of zeros may be anything,
/// and must not turn 0 into NaN.
constexpr float kLargestFactor = 0x1p+60F;
static_assert(sizeof(WeightSums) == GramWorkspace::kSumsBytes);

// Grid: a block per matrix. Block: 256. Shared: eight WeightSums, below 1 KiB. Bound by: latency of
// a tree of sums.
__global__ void __launch_bounds__(device::kSumThreads)
    facts_kernel(OperandKind kind, bool shifted, std::int64_t fields, GramMemory memory,
                 GramFacts* facts) {
  const std::int64_t matrix = blockIdx.x;
  const auto* partial =
      reinterpret_cast<const WeightSums*>(memory.workspace + memory.sums_offset) + matrix * fields;
  WeightSums sums = device::no_sums();
  for (std::int64_t i = threadIdx.x; i < fields; i += device::kSumThreads) {
    device::add(sums, partial[i]);
  }
  auto* shared = reinterpret_cast<WeightSums*>(device::dynamic_shared());
  sums = device::block_sum(sums, shared);
  GramFacts& out = facts[matrix];
  if (threadIdx.x == 0) {
    const float largest = fmaxf(sums.max, -sums.min);
    const int exponent = sums.count > 0 && largest > 0.0F ? ilogbf(largest) : 0;
    out.sums = sums;
    out.exponent = exponent;
    out.operand_exponent = !shifted                         ? 0
                           : kind == OperandKind::kBfloat16 ? exponent
                                                            : exponent - kLargestHalfExponent;
    shared->count = exponent;
    shared->zeros = out.operand_exponent;
  }
  __syncthreads();
  const auto exponent = static_cast<int>(shared->count);
  const auto operand_exponent = static_cast<int>(shared->zeros);
  float* const factors =
      reinterpret_cast<float*>(memory.workspace + memory.factors_offset) + matrix * fields;
  for (std::int64_t i = threadIdx.x; i < fields; i += device::kSumThreads) {
    const float operand_unit = kind == OperandKind::kBlockScaled ? factors[i] : 1.0F;
    const float factor = device::scale_down(operand_unit, exponent - operand_exponent);
    factors[i] = isfinite(factor) ? fmaxf(-kLargestFactor, fminf(kLargestFactor, factor)) : 0.0F;
  }
}

/// Squares of a line over all chunks, in their order, to the diagonal: one rounding.
/// Grid: tiles of 128 lines x 1 x matrices. Block: 128. Shared: none. Bound by: memory (a float64
/// sum per line and chunk).
__global__ void __launch_bounds__(device::kTileSide)
    diagonal_kernel(std::int64_t chunks, std::int64_t order, GramMemory memory,
                    const GramFacts* facts) {
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t lines = static_cast<std::int64_t>(gridDim.x) * device::kTileSide;
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * device::kTileSide + threadIdx.x;
  if (line >= order) {
    return;
  }
  const double* const squares =
      reinterpret_cast<const double*>(memory.workspace + memory.squares_offset) +
      matrix * chunks * lines + line;
  double sum = 0.0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    sum += squares[chunk * lines];
  }
  reinterpret_cast<float*>(memory.workspace + memory.diagonals_offset)[matrix * order + line] =
      static_cast<float>(ldexp(sum, -2 * facts[matrix].exponent));
}

/// The scale of a Gram matrix: the exponent that scale_matrices() (band_reduction.hpp) would find,
/// to its facts, its diagonal and the factors of its rows.
/// Grid: matrices. Block: kSumThreads. Shared: a float for each warp. Bound by: latency, some 12
/// KiB are read of a matrix of 7168 x 2048.
__global__ void __launch_bounds__(device::kSumThreads)
    gram_scale_kernel(std::int64_t fields, std::int64_t order, GramMemory memory,
                      GramFacts* facts) {
  const std::int64_t matrix = blockIdx.x;
  float* const diagonal =
      reinterpret_cast<float*>(memory.workspace + memory.diagonals_offset) + matrix * order;
  float largest = 0.0F;
  for (std::int64_t i = threadIdx.x; i < order; i += device::kSumThreads) {
    largest = fmaxf(largest, diagonal[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(device::kAllLanes, largest, offset));
  }
  auto* const shared = reinterpret_cast<float*>(device::dynamic_shared());
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = largest;
  }
  __syncthreads();
  for (int warp = 0; warp < device::kSumWarps; ++warp) {
    largest = fmaxf(largest, shared[warp]);
  }
  const int exponent = largest > 0.0F ? ilogbf(largest) + 1 : 0;
  const float scale = ldexpf(1.0F, -exponent);
  constexpr float kLeast = 0x1p-149F;  // what is not zero stays so: zero rows are counted
  for (std::int64_t i = threadIdx.x; i < order; i += device::kSumThreads) {
    diagonal[i] = diagonal[i] > 0.0F ? fmaxf(diagonal[i] * scale, kLeast) : 0.0F;
  }
  const auto* const factors =
      reinterpret_cast<const float*>(memory.workspace + memory.factors_offset) + matrix * fields;
  auto* const row_factors =
      reinterpret_cast<float*>(memory.workspace + memory.row_factors_offset) + matrix * fields;
  for (std::int64_t i = threadIdx.x; i < fields; i += device::kSumThreads) {
    row_factors[i] = factors[i] * scale;
  }
  if (threadIdx.x == 0) {
    facts[matrix].gram_exponent = 2 * facts[matrix].exponent + exponent;
  }
}

}  // namespace

void finish_facts(const OperandPlan& plan, const GramShape& shape, std::int64_t matrices,
                  const GramMemory& memory, GramFacts* facts, cudaStream_t stream) {
  launch(facts_kernel, dim3(static_cast<unsigned>(matrices)), dim3(device::kSumThreads),
         device::kSumWarps * sizeof(WeightSums), stream, plan.kind, plan.shifted,
         shape.tiles() * shape.chunks(), memory, facts);
  launch(diagonal_kernel,
         dim3(static_cast<unsigned>(shape.tiles()), 1, static_cast<unsigned>(matrices)),
         dim3(device::kTileSide), 0, stream, shape.chunks(), shape.order(), memory, facts);
  launch(gram_scale_kernel, dim3(static_cast<unsigned>(matrices)), dim3(device::kSumThreads),
         device::kSumWarps * sizeof(float), stream, shape.tiles() * shape.chunks(), shape.order(),
         memory, facts);
}

decode::Moments moments_of(const GramFacts& facts) {
  const WeightSums& sums = facts.sums;
  decode::Moments out;
  out.count = sums.count;
  out.zeros = sums.zeros;
  out.nonfinite = sums.nonfinite;
  if (sums.count == 0) {
    return out;
  }
  // Raw sums about a shift to central ones, with m the mean about the shift.
  const auto n = static_cast<double>(sums.count);
  const double m = sums.power[0] / n;
  const double s2 = sums.power[1];
  const double s3 = sums.power[2];
  const double s4 = sums.power[3];
  out.mean = facts.shift + m;
  out.m2 = std::max(0.0, s2 - n * m * m);
  out.m3 = s3 - 3.0 * m * s2 + 2.0 * n * m * m * m;
  out.m4 = std::max(0.0, s4 - 4.0 * m * s3 + 6.0 * m * m * s2 - 3.0 * n * m * m * m * m);
  out.sum_squares = sums.squares;
  out.min = static_cast<double>(sums.min + 0.0F);  // which of -0 and +0 is the least is chance
  out.max = static_cast<double>(sums.max + 0.0F);
  return out;
}

double gram_norm_squared(const GramFacts& facts) {
  return std::ldexp(facts.scaled_norm_squared, 2 * facts.gram_exponent);
}

}  // namespace vindex::kernels
