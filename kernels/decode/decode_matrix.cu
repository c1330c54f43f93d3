// Owns the launch of the decoding kernel for an encoding, and the kernels that flip signs and widen
// to float64.
#include "decode_matrix.hpp"
#include "decode_run.hpp"

#include "core/integers.hpp"
#include "core/philox.hpp"
#include "decode/formats/visit_encoding.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
/// Enough to fill any device; the rest is the stride loop.
constexpr std::int64_t kMaxBlocks = 132 * 32;

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>(
      std::clamp<std::int64_t>(ceil_divide(count, kThreads), 1, kMaxBlocks));
}

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t index_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// Grid and block over the rows of a matrix: threads side by side take neighbouring runs of
/// kDecodeRun columns, those of the next `y` the next row. No thread divides to find its place.
struct RowGrid {
  dim3 grid, block;

  RowGrid(std::int64_t rows, std::int64_t cols) {
    constexpr std::int64_t kRowsPerThread = 4;  // what is found per column serves so many
    constexpr std::int64_t kMaxInY = 65535;
    const std::int64_t runs = ceil_divide(cols, device::kDecodeRun);
    std::int64_t across = 1;
    while (across < kThreads && across < runs) {
      across *= 2;
    }
    const std::int64_t down = kThreads / across;
    const std::int64_t strips = ceil_divide(rows, down * kRowsPerThread);
    block = dim3(static_cast<unsigned int>(across), static_cast<unsigned int>(down));
    grid = dim3(static_cast<unsigned int>(ceil_divide(runs, across)),
                static_cast<unsigned int>(std::clamp<std::int64_t>(strips, 1, kMaxInY)));
  }
};

__device__ std::int64_t first_column() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * device::kDecodeRun;
}
__device__ std::int64_t first_row() {
  return static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
}
__device__ std::int64_t row_stride() { return static_cast<std::int64_t>(gridDim.y) * blockDim.y; }

// Grid: runs of columns x strips of rows (RowGrid). Block: 256. Shared: none. Bound by: memory
// (float32 weights written).
template <typename Decoder>
__global__ void __launch_bounds__(kThreads)
    decode_kernel(decode::DecodeView view, float* out, std::int64_t out_stride) {
  const std::int64_t col = first_column();
  if (col >= view.cols) {
    return;
  }
  const device::DecodeColumns<Decoder> columns(view, col);
  const bool is_whole = col + device::kDecodeRun <= view.cols;
  const bool is_aligned = out_stride % device::kDecodeRun == 0 &&
                          reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0;
  for (std::int64_t row = first_row(); row < view.rows; row += row_stride()) {
    float* const to = out + row * out_stride + col;
    if (!is_whole) {
      for (std::int64_t i = 0; i < view.cols - col; ++i) {
        to[i] = Decoder::at(view, row, col + i);
      }
      continue;
    }
    float weights[device::kDecodeRun];
    device::decode_run<Decoder>(view, columns, row, weights);
    if (is_aligned) {
      *reinterpret_cast<float4*>(to) = make_float4(weights[0], weights[1], weights[2], weights[3]);
    } else {
#pragma unroll
      for (int i = 0; i < device::kDecodeRun; ++i) {
        to[i] = weights[i];
      }
    }
  }
}

// Grid: runs of columns x strips of rows (RowGrid). Block: 256. Shared: none. Bound by: integer
// arithmetic, ten rounds of Philox per weight.
__global__ void __launch_bounds__(kThreads)
    flip_kernel(float* values, std::int64_t rows, std::int64_t cols, SignFlip flip) {
  for (std::int64_t row = first_row(); row < rows; row += row_stride()) {
    for (std::int64_t col = first_column(), end = min(cols, col + device::kDecodeRun); col < end;
         ++col) {
      const std::int64_t whole_row = flip.first_row + row;
      const std::int64_t whole_col = flip.first_col + col;
      const std::int64_t element = flip.transposed ? whole_col * flip.whole_rows + whole_row
                                                   : whole_row * flip.whole_cols + whole_col;
      if (philox_bit(flip.key, static_cast<std::uint64_t>(element), flip.draw)) {
        values[row * cols + col] = -values[row * cols + col];
      }
    }
  }
}

// Grid: up to 4,224 blocks, which take elements in turn. Block: 256. Shared: none. Bound by:
// memory.
__global__ void widen_kernel(const float* values, std::int64_t count, double* out) {
  for (std::int64_t i = first_index(); i < count; i += index_stride()) {
    out[i] = static_cast<double>(values[i]);
  }
}

}  // namespace

void decode_matrix(const decode::Encoding& encoding, const decode::DecodeView& view, float* out,
                   std::int64_t out_stride, cudaStream_t stream) {
  const bool known = decode::visit_encoding(encoding, [&]<typename Decoder>(Decoder /*decoder*/) {
    const RowGrid over(view.rows, view.cols);
    launch(decode_kernel<Decoder>, over.grid, over.block, 0, stream, view, out, out_stride);
  });
  if (!known) {
    throw UsageError("E-ENCODING", "no device decoder for " + encoding.label);
  }
}

void flip_signs(float* values, std::int64_t rows, std::int64_t cols, const SignFlip& flip,
                cudaStream_t stream) {
  const RowGrid over(rows, cols);
  launch(flip_kernel, over.grid, over.block, 0, stream, values, rows, cols, flip);
}

void widen(const float* values, std::int64_t count, double* out, cudaStream_t stream) {
  launch(widen_kernel, blocks_for(count), kThreads, 0, stream, values, count, out);
}

}  // namespace vindex::kernels
