// Owns orthonormal bases of a batch by shifted Cholesky QR (Fukaya, Kannan, Nakatsukasa, Yamamoto,
// Yanagisawa 2020), three passes of
//
//   S = X^T X (first pass: + s I, s = 11 (p w + w (w + 1)) u trace S),   S = L L^T,   X <- X L^-T
//
// The shift makes the first factorisation succeed for any condition up to 1e15 and leaves columns
// that the next two, plain CholeskyQR, make orthonormal to rounding. Why not Householder QR, as on
// the host: column after column with two barriers each, where this is products of matrices.
#include "dense_batch.hpp"

#include "core/integers.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>

namespace vindex::kernels {

namespace {

constexpr int kThreads = 256;

// Grids of element-wise kernels: x over the elements of one matrix, y over matrices.
dim3 element_grid(std::int64_t elements, std::int64_t batch) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(ceil_divide(elements, kThreads), 1, kMaxBlocks);
  return dim3(static_cast<unsigned int>(blocks), static_cast<unsigned int>(batch));
}

__device__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t element_step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void widen_kernel(const float* const* from, double* stacked, std::int64_t p,
                             std::int64_t width) {
  const float* source = from[blockIdx.y];
  double* to = stacked + static_cast<std::int64_t>(blockIdx.y) * (p + width) * width;
  for (std::int64_t i = first_element(); i < p * width; i += element_step()) {
    to[i / p * (p + width) + width + i % p] = static_cast<double>(source[i]);
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void narrow_kernel(const double* from, std::int64_t leading, std::int64_t stride,
                              float* const* to, std::int64_t p, std::int64_t width) {
  const double* source = from + static_cast<std::int64_t>(blockIdx.y) * stride;
  float* out = to[blockIdx.y];
  for (std::int64_t i = first_element(); i < p * width; i += element_step()) {
    out[i] = static_cast<float>(source[i / p * leading + i % p]);
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void narrow_scaled_kernel(const double* from, float* to, const double* scales,
                                     std::int64_t elements) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * elements;
  const double scale = scales[blockIdx.y];
  for (std::int64_t i = first_element(); i < elements; i += element_step()) {
    to[begin + i] = static_cast<float>(scale * from[begin + i]);
  }
}

// Adds factor * trace to the diagonal of the leading square.
// Grid: a block per matrix. Block: 32. Shared: none. Bound by: latency of the diagonal.
__global__ void shift_kernel(double* stacked, std::int64_t leading, std::int64_t stride,
                             std::int64_t width, double factor) {
  double* own = stacked + static_cast<std::int64_t>(blockIdx.x) * stride;
  double trace = 0.0;
  for (std::int64_t i = threadIdx.x; i < width; i += 32) {
    trace += own[i * (leading + 1)];
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    trace += __shfl_xor_sync(0xFFFFFFFFU, trace, distance);
  }
  for (std::int64_t i = threadIdx.x; i < width; i += 32) {
    own[i * (leading + 1)] += factor * trace;
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: launch, the values are few.
__global__ void reverse_values_kernel(double* values, std::int64_t n) {
  double* own = values + static_cast<std::int64_t>(blockIdx.y) * n;
  for (std::int64_t i = first_element(); i < n / 2; i += element_step()) {
    const double value = own[i];
    own[i] = own[n - 1 - i];
    own[n - 1 - i] = value;
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x matrices. Block: 256. Shared: none.
// Bound by: memory.
__global__ void reverse_columns_kernel(double* matrices, std::int64_t n) {
  double* own = matrices + static_cast<std::int64_t>(blockIdx.y) * n * n;
  for (std::int64_t i = first_element(); i < n / 2 * n; i += element_step()) {
    const std::int64_t other = (n - 1 - i / n) * n + i % n;
    const double value = own[i];
    own[i] = own[other];
    own[other] = value;
  }
}

}  // namespace

void widen_blocks(const float* const* from, const StackedBlock& shape, double* stacked,
                  std::int64_t batch, cudaStream_t stream) {
  launch(widen_kernel, element_grid(shape.p * shape.width, batch), dim3(kThreads), 0, stream, from,
         stacked, shape.p, shape.width);
}

void narrow_blocks(const double* from, std::int64_t leading, std::int64_t stride, float* const* to,
                   std::int64_t p, std::int64_t width, std::int64_t batch, cudaStream_t stream) {
  launch(narrow_kernel, element_grid(p * width, batch), dim3(kThreads), 0, stream, from, leading,
         stride, to, p, width);
}

void narrow_scaled(const double* from, float* to, const double* scales, std::int64_t p,
                   std::int64_t batch, cudaStream_t stream) {
  launch(narrow_scaled_kernel, element_grid(p * p, batch), dim3(kThreads), 0, stream, from, to,
         scales, p * p);
}

void multiply_batch(const LibraryHandles& handles, std::int64_t m, std::int64_t n, std::int64_t k,
                    const Operand& a, const Operand& b, double* c, std::int64_t c_leading,
                    std::int64_t c_stride, std::int64_t batch) {
  const double one = 1.0;
  const double zero = 0.0;
  check(cublasDgemmStridedBatched(handles.blas, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                  b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, blas_int(m),
                                  blas_int(n), blas_int(k), &one, a.data, blas_int(a.leading),
                                  a.stride, b.data, blas_int(b.leading), b.stride, &zero, c,
                                  blas_int(c_leading), c_stride, blas_int(batch)));
}

void orthonormalise(const LibraryHandles& handles, const StackedBlock& shape, double* stacked,
                    std::int64_t batch, bool independent, int* info, std::int64_t used) {
  const std::int64_t width = shape.width;
  const std::int64_t leading = shape.leading();
  // 11 (p w + w (w + 1)) u |X|^2, and |X|^2 <= trace X^T X.
  const double factor = 11.0 * static_cast<double>(shape.p * width + width * (width + 1)) * 0x1p-53;
  for (int pass = independent ? 1 : 0; pass < 3; ++pass) {
    const Operand block = {shape.block(stacked), leading, shape.elements(), false};
    Operand transposed = block;
    transposed.transposed = true;
    multiply_batch(handles, width, width, shape.p, transposed, block, stacked, leading,
                   shape.elements(), batch);
    if (pass == 0) {
      launch(shift_kernel, dim3(static_cast<unsigned int>(batch)), dim3(32), 0, handles.stream,
             stacked, leading, shape.elements(), width, factor);
    }
    cholesky(handles.blas, handles.stream, stacked, leading, width, leading, shape.elements(),
             batch, info, used);
  }
}

void SmallEigen::solve(const LibraryHandles& handles, double* matrices, std::int64_t n,
                       std::int64_t batch, bool vectors, double* values, int* info) {
  symmetric_eigen({.stream = handles.stream,
                   .solver = handles.solver,
                   .parameters = handles.parameters,
                   .work = &work_,
                   .host_work = &host_work_,
                   .one_by_one = handles.one_by_one},
                  matrices, n, batch, vectors, values, info);
  launch(reverse_values_kernel, element_grid(n, batch), dim3(kThreads), 0, handles.stream, values,
         n);
  if (vectors) {
    launch(reverse_columns_kernel, element_grid(n * n, batch), dim3(kThreads), 0, handles.stream,
           matrices, n);
  }
  check(cudaStreamSynchronize(handles.stream));
}

}  // namespace vindex::kernels
