#include "singular_values.hpp"

#include <algorithm>
#include <limits>

namespace vindex::kernels {

namespace {

/// cuSOLVER's batched solver takes matrices of at most this many bytes in one call.
constexpr std::int64_t kBatchedBytes = std::numeric_limits<std::int32_t>::max();

int blas_size(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw UsageError("E-CUDA-SIZE",
                     "a side of " + std::to_string(value) + " exceeds what cuBLAS can index");
  }
  return static_cast<int>(value);
}

}  // namespace

void add_gram(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
              std::int64_t p, bool first, double* gram) {
  const double one = 1.0;
  const double beta = first ? 0.0 : 1.0;
  const std::int64_t leading = over_rows ? p : count;
  check(cublasDsyrk(lane.blas.get(), CUBLAS_FILL_MODE_LOWER, over_rows ? CUBLAS_OP_N : CUBLAS_OP_T,
                    blas_size(p), blas_size(count), &one, slab, blas_size(leading), &beta, gram,
                    blas_size(p)));
}

void eigenvalues(SolverLane& lane, double* grams, std::int64_t p, std::int64_t batch, double* out,
                 std::vector<std::uint8_t>& converged) {
  const std::int64_t matrix_bytes = p * p * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t step = std::clamp<std::int64_t>(kBatchedBytes / matrix_bytes, 1, batch);
  converged.assign(static_cast<std::size_t>(batch), 0);
  auto* values = lane.values.reserve_array<double>(static_cast<std::size_t>(batch * p));
  auto* info = lane.info.reserve_array<int>(static_cast<std::size_t>(batch));
  std::vector<int> status(static_cast<std::size_t>(batch));
  for (std::int64_t first = 0; first < batch; first += step) {
    const std::int64_t count = std::min(step, batch - first);
    double* matrices = grams + first * p * p;
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;
    check(cusolverDnXsyevBatched_bufferSize(lane.solver.get(), lane.parameters.get(),
                                            CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER, p,
                                            CUDA_R_64F, matrices, p, CUDA_R_64F, values, CUDA_R_64F,
                                            &device_bytes, &host_bytes, count));
    void* work = lane.work.reserve(std::max<std::size_t>(device_bytes, 1));
    lane.host_work.resize(std::max(lane.host_work.size(), host_bytes));
    check(cusolverDnXsyevBatched(
        lane.solver.get(), lane.parameters.get(), CUSOLVER_EIG_MODE_NOVECTOR,
        CUBLAS_FILL_MODE_LOWER, p, CUDA_R_64F, matrices, p, CUDA_R_64F, values + first * p,
        CUDA_R_64F, work, device_bytes, lane.host_work.data(), host_bytes, info + first, count));
    // The host workspace is reused by the next call, so this one must be over.
    check(cudaStreamSynchronize(lane.stream.get()));
  }
  check(cudaMemcpyAsync(out, values, static_cast<std::size_t>(batch * p) * sizeof(double),
                        cudaMemcpyDeviceToHost, lane.stream.get()));
  check(cudaMemcpyAsync(status.data(), info, static_cast<std::size_t>(batch) * sizeof(int),
                        cudaMemcpyDeviceToHost, lane.stream.get()));
  check(cudaStreamSynchronize(lane.stream.get()));
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i] < 0) {
      throw DeviceError("E-CUSOLVER",
                        "XsyevBatched refused argument " + std::to_string(-status[i]));
    }
    converged[i] = status[i] == 0 ? 1 : 0;
  }
}

std::vector<double> singular_values(SolverLane& lane, double* matrix, std::int64_t rows,
                                    std::int64_t cols, DeviceBuffer& transposed) {
  // Row-major rows x cols is column-major cols x rows: tall as it is when cols >= rows.
  double* tall = matrix;
  const std::int64_t m = std::max(rows, cols);
  const std::int64_t n = std::min(rows, cols);
  if (rows > cols) {
    tall = transposed.reserve_array<double>(static_cast<std::size_t>(rows * cols));
    const double one = 1.0;
    const double zero = 0.0;
    check(cublasDgeam(lane.blas.get(), CUBLAS_OP_T, CUBLAS_OP_N, blas_size(rows), blas_size(cols),
                      &one, matrix, blas_size(cols), &zero, tall, blas_size(rows), tall,
                      blas_size(rows)));
  }
  auto* values = lane.values.reserve_array<double>(static_cast<std::size_t>(n));
  auto* info = lane.info.reserve_array<int>(1);
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  check(cusolverDnXgesvd_bufferSize(lane.solver.get(), lane.parameters.get(), 'N', 'N', m, n,
                                    CUDA_R_64F, tall, m, CUDA_R_64F, values, CUDA_R_64F, nullptr, m,
                                    CUDA_R_64F, nullptr, n, CUDA_R_64F, &device_bytes,
                                    &host_bytes));
  void* work = lane.work.reserve(std::max<std::size_t>(device_bytes, 1));
  lane.host_work.resize(std::max(lane.host_work.size(), host_bytes));
  check(cusolverDnXgesvd(lane.solver.get(), lane.parameters.get(), 'N', 'N', m, n, CUDA_R_64F, tall,
                         m, CUDA_R_64F, values, CUDA_R_64F, nullptr, m, CUDA_R_64F, nullptr, n,
                         CUDA_R_64F, work, device_bytes, lane.host_work.data(), host_bytes, info));
  std::vector<double> out(static_cast<std::size_t>(n));
  int status = 0;
  check(cudaMemcpyAsync(out.data(), values, out.size() * sizeof(double), cudaMemcpyDeviceToHost,
                        lane.stream.get()));
  check(cudaMemcpyAsync(&status, info, sizeof status, cudaMemcpyDeviceToHost, lane.stream.get()));
  check(cudaStreamSynchronize(lane.stream.get()));
  if (status < 0) {
    throw DeviceError("E-CUSOLVER", "Xgesvd refused argument " + std::to_string(-status));
  }
  if (status > 0) {
    out.clear();
  }
  return out;
}

}  // namespace vindex::kernels
