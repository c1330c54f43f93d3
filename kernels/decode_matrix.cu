#include "decode_matrix.hpp"
#include "launch.hpp"

#include <vindex/core/philox.hpp>
#include <vindex/decode/visit_encoding.hpp>

#include <algorithm>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks =
    132 * 32;  ///< enough to fill any device; the rest is the stride loop

unsigned int blocks_for(std::int64_t count) {
  return static_cast<unsigned int>(
      std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t index_stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// Thread = weight, in row-major order: writes are coalesced, the codes of a block stay in the cache
// of its warp.
template <typename Decoder>
__global__ void decode_kernel(decode::DecodeView view, float* out, std::int64_t out_stride) {
  const std::int64_t count = view.rows * view.cols;
  for (std::int64_t i = first_index(); i < count; i += index_stride()) {
    const std::int64_t row = i / view.cols;
    const std::int64_t col = i - row * view.cols;
    out[row * out_stride + col] = Decoder::at(view, row, col);
  }
}

__global__ void flip_kernel(float* values, std::int64_t rows, std::int64_t cols, SignFlip flip) {
  const std::int64_t count = rows * cols;
  for (std::int64_t i = first_index(); i < count; i += index_stride()) {
    const std::int64_t row = flip.first_row + i / cols;
    const std::int64_t col = flip.first_col + i % cols;
    const std::int64_t element =
        flip.transposed ? col * flip.whole_rows + row : row * flip.whole_cols + col;
    if (philox_bit(flip.key, static_cast<std::uint64_t>(element))) {
      values[i] = -values[i];
    }
  }
}

__global__ void widen_kernel(const float* values, std::int64_t count, double* out) {
  for (std::int64_t i = first_index(); i < count; i += index_stride()) {
    out[i] = static_cast<double>(values[i]);
  }
}

}  // namespace

void decode_matrix(const decode::Encoding& encoding, const decode::DecodeView& view, float* out,
                   std::int64_t out_stride, cudaStream_t stream) {
  const bool known = decode::visit_encoding(encoding, [&]<typename Decoder>(Decoder /*decoder*/) {
    launch(decode_kernel<Decoder>, blocks_for(view.rows * view.cols), kThreads, 0, stream, view,
           out, out_stride);
  });
  if (!known) {
    throw UsageError("E-ENCODING", "no device decoder for " + encoding.label);
  }
}

void flip_signs(float* values, std::int64_t rows, std::int64_t cols, const SignFlip& flip,
                cudaStream_t stream) {
  launch(flip_kernel, blocks_for(rows * cols), kThreads, 0, stream, values, rows, cols, flip);
}

void widen(const float* values, std::int64_t count, double* out, cudaStream_t stream) {
  launch(widen_kernel, blocks_for(count), kThreads, 0, stream, values, count, out);
}

}  // namespace vindex::kernels
