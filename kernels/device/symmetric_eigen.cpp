// Owns the split of a batch into calls that the library accepts, and the check of what each
// reports.
#include "symmetric_eigen.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace vindex::kernels {

std::int64_t matrices_per_call(std::int64_t n) {
  constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMaxMatrices = 16LL << 10U;
  const std::int64_t bytes = n * n * static_cast<std::int64_t>(sizeof(double));
  return std::clamp<std::int64_t>(kMaxBytes / std::max<std::int64_t>(bytes, 1), 1, kMaxMatrices);
}

int status_of(cudaStream_t stream, const int* info, const char* routine) {
  int status = 0;
  check(cudaMemcpyAsync(&status, info, sizeof status, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  if (status < 0) {
    throw DeviceError("E-CUSOLVER",
                      std::string(routine) + " refused argument " + std::to_string(-status));
  }
  return status;
}

void symmetric_eigen(const EigenLibrary& library, double* matrices, std::int64_t n,
                     std::int64_t batch, bool vectors, double* values, int* info) {
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const std::int64_t step = library.one_by_one ? 1 : matrices_per_call(n);
  for (std::int64_t first = 0; first < batch; first += step) {
    const std::int64_t count = std::min(step, batch - first);
    double* const part = matrices + first * n * n;
    double* const own_values = values + first * n;
    std::size_t bytes = 0;
    std::size_t host_bytes = 0;
    check(library.one_by_one
              ? cusolverDnXsyevd_bufferSize(library.solver, library.parameters, mode,
                                            CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, part, n,
                                            CUDA_R_64F, own_values, CUDA_R_64F, &bytes, &host_bytes)
              : cusolverDnXsyevBatched_bufferSize(
                    library.solver, library.parameters, mode, CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F,
                    part, n, CUDA_R_64F, own_values, CUDA_R_64F, &bytes, &host_bytes, count));
    void* const work = library.work->reserve(std::max<std::size_t>(bytes, 1));
    library.host_work->resize(std::max({library.host_work->size(), host_bytes, std::size_t{1}}));
    void* const host_work = library.host_work->data();
    check(library.one_by_one
              ? cusolverDnXsyevd(library.solver, library.parameters, mode, CUBLAS_FILL_MODE_LOWER,
                                 n, CUDA_R_64F, part, n, CUDA_R_64F, own_values, CUDA_R_64F, work,
                                 bytes, host_work, host_bytes, info + first)
              : cusolverDnXsyevBatched(library.solver, library.parameters, mode,
                                       CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, part, n, CUDA_R_64F,
                                       own_values, CUDA_R_64F, work, bytes, host_work, host_bytes,
                                       info + first, count));
    // The host workspace is used by the next call, so this one must be over.
    (void)status_of(library.stream, info + first, library.one_by_one ? "Xsyevd" : "XsyevBatched");
  }
}

}  // namespace vindex::kernels
