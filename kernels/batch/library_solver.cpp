// Owns the calls of cuBLAS and cuSOLVER, each with the workspace that it asks for.
#include "library_solver.hpp"

#include "kernels/gram/symmetric.hpp"

#include <algorithm>
#include <limits>

namespace vindex::kernels {

namespace {

int blas_size(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw UsageError("E-CUDA-SIZE",
                     "a side of " + std::to_string(value) + " exceeds what cuBLAS can index");
  }
  return static_cast<int>(value);
}

struct Workspace {
  void* device;
  std::size_t device_bytes;
  void* host;
  std::size_t host_bytes;
};

/// The host part is reused by the next call, so that one must be waited for.
Workspace reserve(SolverLane& lane, std::size_t device_bytes, std::size_t host_bytes) {
  lane.host_work.resize(std::max({lane.host_work.size(), host_bytes, std::size_t{1}}));
  return {lane.work.reserve(std::max<std::size_t>(device_bytes, 1)), device_bytes,
          lane.host_work.data(), host_bytes};
}

}  // namespace

void add_gram(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
              std::int64_t p, std::int64_t leading, bool first, double* gram) {
  const double one = 1.0;
  const double beta = first ? 0.0 : 1.0;
  const std::int64_t slab_leading = over_rows ? p : count;
  check(cublasDsyrk(lane.blas.get(), CUBLAS_FILL_MODE_LOWER, over_rows ? CUBLAS_OP_N : CUBLAS_OP_T,
                    blas_size(p), blas_size(count), &one, slab, blas_size(slab_leading), &beta,
                    gram, blas_size(leading)));
}

void form_grams_together(SolverLane& lane, const double* slabs, bool over_rows, std::int64_t count,
                         std::int64_t p, std::int64_t leading, std::int64_t matrices,
                         double* grams) {
  const double one = 1.0;
  const double zero = 0.0;
  const int slab_leading = blas_size(over_rows ? p : count);
  check(cublasDgemmStridedBatched(lane.blas.get(), over_rows ? CUBLAS_OP_N : CUBLAS_OP_T,
                                  over_rows ? CUBLAS_OP_T : CUBLAS_OP_N, blas_size(p), blas_size(p),
                                  blas_size(count), &one, slabs, slab_leading, p * count, slabs,
                                  slab_leading, p * count, &zero, grams, blas_size(leading),
                                  leading * leading, blas_size(matrices)));
}

void library_eigenvalues(SolverLane& lane, double* matrices, std::int64_t p, std::int64_t batch,
                         double* values, int* failed) {
  symmetric_eigen(lane.eigen_library(lane.one_by_one), matrices, p, batch, false, values, failed);
}

std::int64_t stack_elements(std::int64_t p, std::int64_t rows) { return (p + rows) * p; }

void add_to_factor(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
                   std::int64_t p, bool first, const TriangularFactor& factor) {
  const std::int64_t above = first ? 0 : p;
  const std::int64_t rows = above + count;
  expects(rows >= p, "add_to_factor: at least as many rows as columns");
  const double one = 1.0;
  const double zero = 0.0;
  if (!first) {
    check(cublasDgeam(lane.blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, blas_size(p), blas_size(p), &one,
                      factor.r, blas_size(p), &zero, factor.r, blas_size(p), factor.stack,
                      blas_size(rows)));
  }
  // count x p below: the slab is column-major p x count where it holds rows, count x p where it
  // holds columns.
  check(cublasDgeam(lane.blas.get(), over_rows ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                    blas_size(count), blas_size(p), &one, slab, blas_size(over_rows ? p : count),
                    &zero, factor.stack + above, blas_size(rows), factor.stack + above,
                    blas_size(rows)));
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  check(cusolverDnXgeqrf_bufferSize(lane.solver.get(), lane.solver.parameters(), rows, p,
                                    CUDA_R_64F, factor.stack, rows, CUDA_R_64F, factor.tau,
                                    CUDA_R_64F, &device_bytes, &host_bytes));
  const Workspace work = reserve(lane, device_bytes, host_bytes);
  check(cusolverDnXgeqrf(lane.solver.get(), lane.solver.parameters(), rows, p, CUDA_R_64F,
                         factor.stack, rows, CUDA_R_64F, factor.tau, CUDA_R_64F, work.device,
                         work.device_bytes, work.host, work.host_bytes, factor.info));
  (void)status_of(lane.stream.get(), factor.info, "Xgeqrf");
  copy_upper_triangle(factor.stack, rows, p, factor.r, lane.stream.get());
}

std::vector<double> library_singular_values(SolverLane& lane, double* matrix, std::int64_t p,
                                            double* values, int* info) {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  check(cusolverDnXgesvd_bufferSize(lane.solver.get(), lane.solver.parameters(), 'N', 'N', p, p,
                                    CUDA_R_64F, matrix, p, CUDA_R_64F, values, CUDA_R_64F, nullptr,
                                    p, CUDA_R_64F, nullptr, p, CUDA_R_64F, &device_bytes,
                                    &host_bytes));
  const Workspace work = reserve(lane, device_bytes, host_bytes);
  check(cusolverDnXgesvd(lane.solver.get(), lane.solver.parameters(), 'N', 'N', p, p, CUDA_R_64F,
                         matrix, p, CUDA_R_64F, values, CUDA_R_64F, nullptr, p, CUDA_R_64F, nullptr,
                         p, CUDA_R_64F, work.device, work.device_bytes, work.host, work.host_bytes,
                         info));
  std::vector<double> out(static_cast<std::size_t>(p));
  check(cudaMemcpyAsync(out.data(), values, out.size() * sizeof(double), cudaMemcpyDeviceToHost,
                        lane.stream.get()));
  if (status_of(lane.stream.get(), info, "Xgesvd") > 0) {
    out.clear();
  }
  return out;
}

}  // namespace vindex::kernels
