// Owns the kernel: a block takes some queries of one head through all tiles of keys, with its
// scores in shared memory and its sums in registers.
#include "attention.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <cmath>
#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kQueries = static_cast<int>(kAttentionQueries);
constexpr int kKeys = 64;    ///< of a tile
constexpr int kDepth = 32;   ///< components of queries and keys in shared memory at a time
constexpr int kAcross = 16;  ///< threads that share their queries: half a warp
constexpr int kRows = 4;     ///< queries of a thread
constexpr int kCols = 4;     ///< its keys, and its neighbouring columns of values
static_assert(kThreads / kAcross * kRows == kQueries && kAcross * kCols == kKeys);
/// Floats between rows in shared memory: multiples of 16 bytes that put neighbouring rows on other
/// banks.
constexpr int kDepthStride = kDepth + 4;
constexpr int kWeightStride = kKeys + 4;
constexpr int kColsOfChunk = kAcross * kCols;
/// What the queries and keys of a piece of depth take, then the values of some keys.
constexpr int kStageFloats = (kQueries + kKeys) * kDepthStride;
constexpr std::size_t kSharedBytes = (kStageFloats + kQueries * kWeightStride) * sizeof(float);
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ inline float4 load4(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ inline float component(const float4& of, int i) {
  return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w;
}

/// The scores of the block's queries and keys [first_key, first_key + kKeys), before the scale.
/// `end`: of the tokens that are there.
__device__ inline void multiply(const AttentionRun& run, const float* q, const float* k,
                                std::int64_t first, std::int64_t first_key, std::int64_t end,
                                float* stage, float (&score)[kRows][kCols]) {
  float* const queries = stage;
  float* const keys = stage + kQueries * kDepthStride;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kAcross;
  const int row = thread / kAcross * kRows;
  const std::int64_t q_stride = run.heads * run.head_dim;
  const std::int64_t k_stride = run.heads / run.group * run.head_dim;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int j = 0; j < kCols; ++j) {
      score[i][j] = 0.0F;
    }
  }
  for (std::int64_t depth = 0; depth < run.head_dim; depth += kDepth) {
    __syncthreads();  // nobody reads what stood here
    const int at = thread % kDepth;
    const bool inside = depth + at < run.head_dim;
    for (int r = thread / kDepth; r < kQueries; r += kThreads / kDepth) {
      queries[r * kDepthStride + at] =
          inside && first + r < end ? q[r * q_stride + depth + at] : 0.0F;
      keys[r * kDepthStride + at] =
          inside && first_key + r < end ? k[(first_key + r) * k_stride + depth + at] : 0.0F;
    }
    __syncthreads();
#pragma unroll 2
    for (int d = 0; d < kDepth; d += 4) {
      float4 a[kRows];
      float4 b[kCols];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        a[i] = load4(queries + (row + i) * kDepthStride + d);
      }
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        b[j] = load4(keys + (lane + kAcross * j) * kDepthStride + d);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          score[i][j] = fmaf(a[i].x, b[j].x, score[i][j]);
          score[i][j] = fmaf(a[i].y, b[j].y, score[i][j]);
          score[i][j] = fmaf(a[i].z, b[j].z, score[i][j]);
          score[i][j] = fmaf(a[i].w, b[j].w, score[i][j]);
        }
      }
    }
  }
}

/// A block of threads for kQueries tokens of one head and kChunks * 64 columns of its values; the
/// scores are found anew for further columns. Two blocks share a multiprocessor where their sums
/// leave registers for it: one computes while the other waits for memory.
/// Grid: 64 queries x heads x widths of 64 kChunks columns. Block: 256. Shared: 35 KiB, a tile of
/// queries and keys (values take its place) and of weights. Bound by: float32 arithmetic, fed from
/// shared memory.
template <int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks <= 2 ? 2 : 1)
    attention_kernel(AttentionRun run) {
  constexpr int kWidth = kChunks * kColsOfChunk;
  constexpr int kKeysAtOnce = kKeys / kChunks;
  static_assert(kKeysAtOnce * kWidth <= kStageFloats && kKeysAtOnce % 4 == 0);
  auto* const stage = reinterpret_cast<float*>(device::dynamic_shared());
  float* const weights = stage + kStageFloats;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kAcross;
  const int row = thread / kAcross * kRows;
  // The last queries see most and begin first.
  const std::int64_t offset = (static_cast<std::int64_t>(gridDim.x) - 1 - blockIdx.x) * kQueries;
  const std::int64_t first = run.first_query + offset;
  const std::int64_t last = run.first_query + run.queries;
  const std::int64_t end = first + kQueries < last ? first + kQueries : last;
  const std::int64_t head = blockIdx.y;
  const std::int64_t kv_head = head / run.group;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.z) * kWidth;
  const std::int64_t v_stride = run.heads / run.group * run.value_dim;
  const std::int64_t out_stride = run.heads * run.value_dim;
  const float* const q = run.q + (offset * run.heads + head) * run.head_dim;
  const float* const k = run.k + kv_head * run.head_dim;
  const float* const v = run.v + kv_head * run.value_dim + col;
  const std::int64_t cols = run.value_dim - col;

  float total[kRows];  // of this thread's keys alone
  float largest[kRows];
  float sums[kRows][kChunks][kCols];
  const float sink = run.sinks == nullptr ? -INFINITY : run.sinks[head];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    largest[i] = sink;
    total[i] = run.sinks != nullptr && lane == 0 ? 1.0F : 0.0F;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        sums[i][c][j] = 0.0F;
      }
    }
  }

  const std::int64_t seen = run.window > 0 && first >= run.window ? first - run.window + 1 : 0;
  for (std::int64_t first_key = seen / kKeys * kKeys; first_key < end; first_key += kKeys) {
    float score[kRows][kCols];
    multiply(run, q, k, first, first_key, end, stage, score);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t token = first + row + i;
      float most = largest[i];
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const std::int64_t key = first_key + lane + kAcross * j;
        float value = score[i][j] * run.scale;
        if (run.soft_cap > 0.0F) {
          value = run.soft_cap * tanhf(value / run.soft_cap);
        }
        const bool visible = key <= token && (run.window <= 0 || token - key < run.window);
        score[i][j] = visible ? value : -INFINITY;
        most = fmaxf(most, score[i][j]);
      }
#pragma unroll
      for (int other = kAcross / 2; other > 0; other /= 2) {
        most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, other));
      }
      // Where nothing is visible yet, exponentials are 0, or what is not a number.
      const float base = most == -INFINITY ? 0.0F : most;
      const float factor = expf(largest[i] - base);
      largest[i] = most;
      total[i] *= factor;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          sums[i][c][j] *= factor;
        }
      }
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const float weight = expf(score[i][j] - base);
        total[i] += weight;
        weights[(row + i) * kWeightStride + lane + kAcross * j] = weight;
      }
    }
    for (int part = 0; part < kKeys; part += kKeysAtOnce) {
      __syncthreads();  // scores are done with the stage; weights are there
      for (int r = thread; r < kKeysAtOnce * kWidth; r += kThreads) {
        const std::int64_t key = first_key + part + r / kWidth;
        const int c = r % kWidth;
        stage[r] = key < end && c < cols ? v[key * v_stride + c] : 0.0F;
      }
      __syncthreads();
#pragma unroll 1
      for (int key = 0; key < kKeysAtOnce; key += 4) {
        float4 w[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          w[i] = load4(weights + (row + i) * kWeightStride + part + key);
        }
#pragma unroll
        for (int one = 0; one < 4; ++one) {
#pragma unroll
          for (int c = 0; c < kChunks; ++c) {
            const float4 value =
                load4(stage + (key + one) * kWidth + c * kColsOfChunk + lane * kCols);
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
              const float weight = component(w[i], one);
              sums[i][c][0] = fmaf(weight, value.x, sums[i][c][0]);
              sums[i][c][1] = fmaf(weight, value.y, sums[i][c][1]);
              sums[i][c][2] = fmaf(weight, value.z, sums[i][c][2]);
              sums[i][c][3] = fmaf(weight, value.w, sums[i][c][3]);
            }
          }
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int other = kAcross / 2; other > 0; other /= 2) {
      total[i] += __shfl_xor_sync(kAllLanes, total[i], other);
    }
    if (first + row + i >= end) {
      continue;
    }
    float* const out = run.out + (offset + row + i) * out_stride + head * run.value_dim + col;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        const int at = c * kColsOfChunk + lane * kCols + j;
        if (at < cols) {
          out[at] = sums[i][c][j] / total[i];
        }
      }
    }
  }
}

template <int kChunks>
void launch_attention(const AttentionRun& run, cudaStream_t stream) {
  const auto count = [](std::int64_t of, std::int64_t unit) {
    return static_cast<unsigned>(ceil_divide(of, unit));
  };
  launch(attention_kernel<kChunks>,
         dim3(count(run.queries, kQueries), static_cast<unsigned>(run.heads),
              count(run.value_dim, kChunks * kColsOfChunk)),
         dim3(kThreads), kSharedBytes, stream, run);
}

}  // namespace

void attend(const AttentionRun& run, cudaStream_t stream) {
  if (run.queries <= 0 || run.heads <= 0 || run.value_dim <= 0) {
    return;
  }
  if (run.value_dim <= kColsOfChunk) {
    launch_attention<1>(run, stream);
  } else if (run.value_dim <= 2 * kColsOfChunk) {
    launch_attention<2>(run, stream);
  } else {
    launch_attention<4>(run, stream);
  }
}

}  // namespace vindex::kernels
