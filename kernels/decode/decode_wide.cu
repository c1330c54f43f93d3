// Owns the kernels that decode several small matrices to float64 at once, with their sums. These
// run in a fixed tree: a thread's weights, the threads of a block, the blocks of a matrix.
#include "decode_run.hpp"
#include "decode_wide.hpp"
#include "raw_sums.hpp"

#include "core/integers.hpp"
#include "decode/formats/visit_encoding.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>
#include <type_traits>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kRowsPerThread = 16;

struct TogetherViews {
  decode::DecodeView views[kDecodedTogether];
};
static_assert(std::is_trivially_copyable_v<TogetherViews>);
static_assert(sizeof(TogetherViews) <= 4096, "kernel arguments of any driver");

/// Threads side by side take neighbouring runs of kDecodeRun columns, those of the next `y` the
/// next row.
struct WideGrid {
  dim3 grid, block;

  WideGrid(std::int64_t rows, std::int64_t cols, std::int64_t matrices) {
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
                static_cast<unsigned int>(std::clamp<std::int64_t>(strips, 1, kMaxInY)),
                static_cast<unsigned int>(matrices));
  }
};

/// The sum over a block's kThreads in thread 0, in one order.
__device__ RawMoments block_sums(const RawMoments& own) {
  auto* const shared = reinterpret_cast<RawMoments*>(device::dynamic_shared());
  const unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x;
  shared[thread] = own;
  __syncthreads();
  for (unsigned int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
      shared[thread] = add_sums(shared[thread], shared[thread + half]);
    }
    __syncthreads();
  }
  return shared[0];
}

/// Grid: WideGrid, z matrices. Block: kThreads in x and y. Dynamic shared memory: a RawMoments for
/// each thread, 22 KiB. What binds: writing 8 bytes a weight. Two blocks at least on a
/// multiprocessor, so that the compiler keeps the sums in registers: by its own choice it spilled
/// some of those of decoders that divide.
template <typename Decoder>
__global__ void __launch_bounds__(kThreads, 2)
    decode_wide_kernel(TogetherViews in, double* out, RawMoments* parts) {
  const decode::DecodeView& view = in.views[blockIdx.z];
  const std::int64_t col =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * device::kDecodeRun;
  const double shift = shift_of(Decoder::at(view, 0, 0));
  double* const matrix = out + static_cast<std::int64_t>(blockIdx.z) * view.rows * view.cols;
  RawMoments own = no_sums();
  if (col < view.cols) {
    const device::DecodeColumns<Decoder> columns(view, col);
    const bool is_whole = col + device::kDecodeRun <= view.cols;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
         row < view.rows; row += stride) {
      float weights[device::kDecodeRun];
      if (is_whole) {
        device::decode_run<Decoder>(view, columns, row, weights);
      } else {
#pragma unroll
        for (int i = 0; i < device::kDecodeRun; ++i) {
          weights[i] = Decoder::at(view, row, min(col + i, view.cols - 1));
        }
      }
#pragma unroll
      for (int i = 0; i < device::kDecodeRun; ++i) {
        if (col + i < view.cols) {
          matrix[row * view.cols + col + i] = static_cast<double>(weights[i]);
          own = add_sums(own, sums_of(weights[i], shift));
        }
      }
    }
  }
  const RawMoments sum = block_sums(own);
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    RawMoments& part =
        parts[(static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x +
              blockIdx.x];
    part = sum;
    part.first = Decoder::at(view, 0, 0);
  }
}

/// Grid: a block per matrix. Block: kThreads. Dynamic shared memory: 22 KiB. What binds: latency.
__global__ void __launch_bounds__(kThreads)
    finish_sums_kernel(const RawMoments* parts, std::int64_t count, RawMoments* moments) {
  const RawMoments* const own = parts + static_cast<std::int64_t>(blockIdx.x) * count;
  RawMoments sum = no_sums();
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    sum = add_sums(sum, own[i]);
  }
  sum = block_sums(sum);
  if (threadIdx.x == 0) {
    sum.first = own[0].first;
    moments[blockIdx.x] = sum;
  }
}

}  // namespace

std::int64_t wide_sum_parts(std::int64_t rows, std::int64_t cols) {
  const WideGrid over(rows, cols, 1);
  return static_cast<std::int64_t>(over.grid.x) * over.grid.y;
}

void decode_wide(const decode::Encoding& encoding, std::span<const decode::DecodeView> views,
                 double* out, RawMoments* parts, RawMoments* moments, cudaStream_t stream) {
  expects(!views.empty() && std::ssize(views) <= kDecodedTogether, "matrices decoded together");
  TogetherViews together;
  std::copy(views.begin(), views.end(), together.views);
  const std::int64_t rows = views[0].rows;
  const std::int64_t cols = views[0].cols;
  const WideGrid over(rows, cols, std::ssize(views));
  constexpr std::size_t kShared = kThreads * sizeof(RawMoments);
  const bool known = decode::visit_encoding(encoding, [&]<typename Decoder>(Decoder /*decoder*/) {
    launch(decode_wide_kernel<Decoder>, over.grid, over.block, kShared, stream, together, out,
           parts);
  });
  if (!known) {
    throw UsageError("E-ENCODING", "no device decoder for " + encoding.label);
  }
  launch(finish_sums_kernel, dim3(static_cast<unsigned int>(views.size())), dim3(kThreads), kShared,
         stream, static_cast<const RawMoments*>(parts), wide_sum_parts(rows, cols), moments);
}

}  // namespace vindex::kernels
