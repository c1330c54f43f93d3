// Owns completing a batch of symmetric matrices from their lower triangles, with ||G||_F^2 and the
// facts of the diagonal on the way, summed in float64 by a fixed tree. A matrix with an element
// that is not finite becomes zero before a batched solver sees it, whose iteration it might keep
// from ending.
#include "symmetric.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

constexpr int kTile = 32;
constexpr int kRowsAtOnce = 8;
constexpr int kThreads = 256;

/// What one tile adds.
struct TileFacts {
  double norm_squared;
  DiagonalFacts diagonal;
  std::int64_t nonfinite;
};
constexpr std::size_t kFactsBytes = kThreads * sizeof(TileFacts);

std::int64_t tiles_of(std::int64_t p) { return ceil_divide(p, kTile); }
std::int64_t tile_pairs_of(std::int64_t p) { return tiles_of(p) * (tiles_of(p) + 1) / 2; }

__device__ void add(TileFacts& a, const TileFacts& b) {
  a.norm_squared += b.norm_squared;
  a.diagonal.zero_rows += b.diagonal.zero_rows;
  a.diagonal.norm_squared += b.diagonal.norm_squared;
  a.diagonal.largest = fmax(a.diagonal.largest, b.diagonal.largest);
  a.nonfinite += b.nonfinite;
}

__device__ void add_diagonal(DiagonalFacts& facts, double entry) {
  facts.zero_rows += entry == 0.0 ? 1 : 0;
  facts.norm_squared += entry * entry;
  facts.largest = fmax(facts.largest, entry);
}

__device__ TileFacts no_facts() { return {0.0, {0, 0.0, 0.0}, 0}; }

/// Sum over the block in thread 0, in one order; `shared` holds a TileFacts per thread.
__device__ TileFacts block_sum(const TileFacts& own, TileFacts* shared) {
  const unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned int threads = blockDim.x * blockDim.y;
  shared[thread] = own;
  __syncthreads();
  for (unsigned int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) {
      add(shared[thread], shared[thread + half]);
    }
    __syncthreads();
  }
  return shared[0];
}

// A tile has row >= col; a thread has a column of it, four of its rows.
// Grid: tiles of the lower triangle x 1 x matrices. Block: 32 x 8. Shared: 32 x 33 float64 or a
// TileFacts per thread, 10 KiB. Bound by: memory (the square, read and written).
__global__ void mirror_kernel(double* matrices, std::int64_t p, std::int64_t leading,
                              TileFacts* tile_facts) {
  auto* tile = reinterpret_cast<double*>(device::dynamic_shared());
  std::int64_t tile_row = 0;
  std::int64_t left = blockIdx.x;
  while (left > tile_row) {
    ++tile_row;
    left -= tile_row;
  }
  const std::int64_t tile_col = left;
  double* matrix = matrices + static_cast<std::int64_t>(blockIdx.z) * leading * leading;
  TileFacts own = no_facts();
  for (int c = static_cast<int>(threadIdx.y); c < kTile; c += kRowsAtOnce) {
    const std::int64_t row = tile_row * kTile + threadIdx.x;
    const std::int64_t col = tile_col * kTile + c;
    double value = 0.0;
    if (row < p && col <= row) {
      value = matrix[col * leading + row];
      own.norm_squared += (row == col ? 1.0 : 2.0) * value * value;
      if (row == col) {
        add_diagonal(own.diagonal, value);
      }
      own.nonfinite += isfinite(value) ? 0 : 1;
    }
    tile[c * (kTile + 1) + static_cast<int>(threadIdx.x)] = value;
  }
  __syncthreads();
  for (int r = static_cast<int>(threadIdx.y); r < kTile; r += kRowsAtOnce) {
    const std::int64_t row = tile_row * kTile + r;
    const std::int64_t col = tile_col * kTile + threadIdx.x;
    if (row < p && col < row) {
      matrix[row * leading + col] = tile[static_cast<int>(threadIdx.x) * (kTile + 1) + r];
    }
  }
  __syncthreads();
  const TileFacts sum = block_sum(own, reinterpret_cast<TileFacts*>(tile));
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    tile_facts[static_cast<std::int64_t>(blockIdx.z) * gridDim.x + blockIdx.x] = sum;
  }
}

// Grid: a block per matrix. Block: 256. Shared: a TileFacts per thread, 10 KiB. Bound by: latency
// of a tree of sums.
__global__ void finish_kernel(double* matrices, std::int64_t leading, const TileFacts* tile_facts,
                              std::int64_t pairs, SymmetricFacts* facts) {
  auto* shared = reinterpret_cast<TileFacts*>(device::dynamic_shared());
  TileFacts own = no_facts();
  for (std::int64_t i = threadIdx.x; i < pairs; i += kThreads) {
    add(own, tile_facts[static_cast<std::int64_t>(blockIdx.x) * pairs + i]);
  }
  const TileFacts sum = block_sum(own, shared);
  if (threadIdx.x == 0) {
    facts[blockIdx.x] = {sum.norm_squared, sum.diagonal, sum.nonfinite == 0 ? 1 : 0};
  }
  if (sum.nonfinite > 0) {
    double* matrix = matrices + static_cast<std::int64_t>(blockIdx.x) * leading * leading;
    for (std::int64_t i = threadIdx.x; i < leading * leading; i += kThreads) {
      matrix[i] = 0.0;
    }
  }
}

// Grid: a block per matrix. Block: 256. Shared: a TileFacts per thread, 10 KiB. Bound by: latency
// of the diagonal, a sector per entry.
__global__ void diagonal_facts_kernel(const float* matrices, std::int64_t p, std::int64_t leading,
                                      DiagonalFacts* facts) {
  auto* shared = reinterpret_cast<TileFacts*>(device::dynamic_shared());
  const float* matrix = matrices + static_cast<std::int64_t>(blockIdx.x) * leading * leading;
  TileFacts own = no_facts();
  for (std::int64_t i = threadIdx.x; i < p; i += kThreads) {
    add_diagonal(own.diagonal, static_cast<double>(matrix[i * leading + i]));
  }
  const TileFacts sum = block_sum(own, shared);
  if (threadIdx.x == 0) {
    facts[blockIdx.x] = sum.diagonal;
  }
}

/// Rows of which one in so many is looked at.
constexpr std::int64_t kAdditiveStep = 7;

// Rows p - 1 - 7 k, part x takes k = x, x + 16 and so on. Of a row the entries left of the diagonal
// count, a thread takes every 256th.
// Grid: kAdditiveParts x 1 x matrices. Block: 256. Shared: a float64 per thread, 2 KiB. Bound by:
// memory, a seventh of the square (the same bytes for the row and the one before it).
__global__ void additive_kernel(const float* matrices, std::int64_t p, std::int64_t leading,
                                double* parts) {
  constexpr float kRounding = 32.0F * 0x1p-24F;
  auto* shared = reinterpret_cast<double*>(device::dynamic_shared());
  const float* matrix = matrices + static_cast<std::int64_t>(blockIdx.z) * leading * leading;
  double sum = 0.0;
  for (std::int64_t row = p - 1 - kAdditiveStep * blockIdx.x; row > 2;
       row -= kAdditiveStep * kAdditiveParts) {
    const float* own = matrix + row * leading;
    const float* before = own - leading;
    for (std::int64_t i = threadIdx.x; i + 3 < row; i += kThreads) {
      // Exact where it matters: neighbours of much the same size. Two in a row, since one in a
      // million of noise looks so by chance, which long sums would be charged for.
      const float mixed = (own[i] - own[i + 1]) - (before[i] - before[i + 1]);
      const float next = (own[i + 1] - own[i + 2]) - (before[i + 1] - before[i + 2]);
      const bool is_additive =
          fabs(mixed) <= kRounding * fabs(own[i]) && fabs(next) <= kRounding * fabs(own[i + 1]);
      const auto entry = static_cast<double>(own[i]);
      sum += is_additive ? entry * entry : 0.0;
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[static_cast<std::int64_t>(blockIdx.z) * kAdditiveParts + blockIdx.x] =
        2.0 * static_cast<double>(kAdditiveStep) * shared[0];
  }
}

// Grid: up to 1,024 blocks, which take elements in turn. Block: 256. Shared: none. Bound by:
// memory.
__global__ void upper_kernel(const double* from, std::int64_t leading, std::int64_t p, double* to) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p * p;
       i += stride) {
    const std::int64_t col = i / p;
    const std::int64_t row = i - col * p;
    to[i] = row <= col ? from[col * leading + row] : 0.0;
  }
}

}  // namespace

std::size_t complete_symmetric_bytes(std::int64_t p, std::int64_t batch) {
  return static_cast<std::size_t>(tile_pairs_of(p) * batch) * sizeof(TileFacts);
}

void complete_symmetric(double* matrices, std::int64_t p, std::int64_t leading, std::int64_t batch,
                        void* workspace, SymmetricFacts* facts, cudaStream_t stream) {
  auto* tile_facts = static_cast<TileFacts*>(workspace);
  const std::int64_t pairs = tile_pairs_of(p);
  constexpr std::size_t kTileBytes = std::max(kTile * (kTile + 1) * sizeof(double), kFactsBytes);
  launch(mirror_kernel, dim3(static_cast<unsigned int>(pairs), 1, static_cast<unsigned int>(batch)),
         dim3(kTile, kRowsAtOnce), kTileBytes, stream, matrices, p, leading, tile_facts);
  launch(finish_kernel, static_cast<unsigned int>(batch), kThreads, kFactsBytes, stream, matrices,
         leading, static_cast<const TileFacts*>(tile_facts), pairs, facts);
}

void find_diagonal_facts(const float* matrices, std::int64_t p, std::int64_t leading,
                         std::int64_t batch, DiagonalFacts* facts, cudaStream_t stream) {
  launch(diagonal_facts_kernel, static_cast<unsigned int>(batch), kThreads, kFactsBytes, stream,
         matrices, p, leading, facts);
}

void add_additive(const float* matrices, std::int64_t p, std::int64_t leading, std::int64_t batch,
                  double* parts, cudaStream_t stream) {
  launch(additive_kernel,
         dim3(static_cast<unsigned int>(kAdditiveParts), 1, static_cast<unsigned int>(batch)),
         dim3(kThreads), kThreads * sizeof(double), stream, matrices, p, leading, parts);
}

void copy_upper_triangle(const double* from, std::int64_t leading, std::int64_t p, double* to,
                         cudaStream_t stream) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t blocks = std::min(kMaxBlocks, ceil_divide(p * p, kThreads));
  launch(upper_kernel, static_cast<unsigned int>(blocks), kThreads, 0, stream, from, leading, p,
         to);
}

}  // namespace vindex::kernels
