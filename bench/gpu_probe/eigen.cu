// cuSOLVER's eigenvalue solvers on Gram matrices of noise: the batched one over order, batch,
// precision and with vectors, beyond 2 GiB too, and the single one beside it. The sum of the values
// is held against the trace of the last matrix of the batch.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::probe {

namespace {

__global__ void widen_kernel(const float* from, std::int64_t count, double* to) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    to[i] = from[i];
  }
}

struct Case {
  std::int64_t order, batch;
  bool is_wide, with_vectors, is_batched;
};

/// Handles and memory that grow with the cases.
struct Solver {
  explicit Solver(Probe& probe)
      : blas(kernels::make_blas(probe.stream())),
        handle(kernels::make_solver(probe.stream())),
        parameters(kernels::make_solver_parameters()) {}
  kernels::BlasHandle blas;
  kernels::SolverHandle handle;
  kernels::SolverParameters parameters;
  DeviceBuffer noise{"noise"};
  DeviceBuffer original{"a Gram matrix"};
  DeviceBuffer matrices{"Gram matrices"};
  DeviceBuffer values{"eigenvalues"};
  DeviceBuffer work{"solver workspace"};
  DeviceBuffer info{"solver status"};
  std::int64_t made_order = 0;  ///< of `original`
  bool made_wide = false;
};

/// The Gram matrix of order x 2 order noise in the precision of `one`, once per order.
void make_original(Probe& probe, Solver& solver, const Case& one) {
  if (solver.made_order == one.order && solver.made_wide == one.is_wide) {
    return;
  }
  const std::int64_t square = one.order * one.order;
  auto* const noise = solver.noise.reserve_array<float>(static_cast<std::size_t>(3 * square));
  auto* const gram = noise + 2 * square;
  fill_random(noise, 2 * square, 5, probe.stream());
  const float scale = 1.0F / static_cast<float>(one.order);
  const float zero = 0.0F;
  const int order = static_cast<int>(one.order);
  check(cublasSgemm(solver.blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, order, order, 2 * order, &scale,
                    noise, order, noise, order, &zero, gram, order));
  auto* const original = solver.original.reserve(static_cast<std::size_t>(8 * square));
  if (one.is_wide) {
    kernels::launch(widen_kernel, dim3(2048), dim3(256), 0, probe.stream(),
                    static_cast<const float*>(gram), square, static_cast<double*>(original));
  } else {
    check(cudaMemcpyAsync(original, gram, static_cast<std::size_t>(4 * square),
                          cudaMemcpyDeviceToDevice, probe.stream()));
  }
  check(cudaStreamSynchronize(probe.stream()));
  solver.made_order = one.order;
  solver.made_wide = one.is_wide;
}

/// Relative distance of the sum of the last matrix's eigenvalues from its trace.
template <typename T>
double trace_error(Probe& probe, const Case& one, const T* values, const T* original) {
  const auto order = static_cast<std::size_t>(one.order);
  std::vector<T> found(order);
  std::vector<T> diagonal(order);
  check(cudaMemcpyAsync(found.data(), values + (one.batch - 1) * one.order, order * sizeof(T),
                        cudaMemcpyDeviceToHost, probe.stream()));
  check(cudaMemcpy2DAsync(diagonal.data(), sizeof(T), original, (order + 1) * sizeof(T), sizeof(T),
                          order, cudaMemcpyDeviceToHost, probe.stream()));
  check(cudaStreamSynchronize(probe.stream()));
  const double sum = std::accumulate(found.begin(), found.end(), 0.0);
  const double trace = std::accumulate(diagonal.begin(), diagonal.end(), 0.0);
  return std::abs(sum / trace - 1.0);
}

void solve(Probe& probe, Solver& solver, const Case& one, throughput::Row& row) {
  make_original(probe, solver, one);
  const cudaDataType_t type = one.is_wide ? CUDA_R_64F : CUDA_R_32F;
  const std::size_t element = one.is_wide ? 8 : 4;
  const std::size_t matrix_bytes = static_cast<std::size_t>(one.order * one.order) * element;
  const auto mode = one.with_vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (matrix_bytes * static_cast<std::size_t>(one.batch) > total_bytes / 3) {
    row.note = "not run: the matrices alone take a third of the device's memory";
    return;
  }
  auto* const matrices = static_cast<std::byte*>(
      solver.matrices.reserve(matrix_bytes * static_cast<std::size_t>(one.batch)));
  void* const values =
      solver.values.reserve(static_cast<std::size_t>(one.order * one.batch) * element);
  auto* const info = solver.info.reserve_array<int>(static_cast<std::size_t>(one.batch));
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  if (one.is_batched) {
    check(cusolverDnXsyevBatched_bufferSize(
        solver.handle.get(), solver.parameters.get(), mode, CUBLAS_FILL_MODE_LOWER, one.order, type,
        matrices, one.order, type, values, type, &device_bytes, &host_bytes, one.batch));
  } else {
    check(cusolverDnXsyevd_bufferSize(solver.handle.get(), solver.parameters.get(), mode,
                                      CUBLAS_FILL_MODE_LOWER, one.order, type, matrices, one.order,
                                      type, values, type, &device_bytes, &host_bytes));
  }
  const auto mebibytes = [](double bytes) { return number(bytes / 0x1p20) + " MiB"; };
  row.note = "matrices " +
             mebibytes(static_cast<double>(matrix_bytes) * static_cast<double>(one.batch)) +
             ", workspace " + mebibytes(static_cast<double>(device_bytes)) + " on the device, " +
             mebibytes(static_cast<double>(host_bytes)) + " on the host";
  void* const work = solver.work.reserve(std::max<std::size_t>(device_bytes, 1));
  std::vector<std::byte> host_work(std::max<std::size_t>(host_bytes, 1));
  const void* const original = solver.original.reserve(matrix_bytes);
  const auto refill = [&] {
    for (std::int64_t i = 0; i < one.batch; ++i) {
      check(cudaMemcpyAsync(matrices + static_cast<std::size_t>(i) * matrix_bytes, original,
                            matrix_bytes, cudaMemcpyDeviceToDevice, probe.stream()));
    }
    check(cudaMemsetAsync(info, 0xFF, static_cast<std::size_t>(one.batch) * sizeof(int),
                          probe.stream()));
    check(cudaMemsetAsync(values, 0, static_cast<std::size_t>(one.order * one.batch) * element,
                          probe.stream()));
  };
  row.samples = probe.microseconds(
      [&] {
        if (one.is_batched) {
          check(cusolverDnXsyevBatched(solver.handle.get(), solver.parameters.get(), mode,
                                       CUBLAS_FILL_MODE_LOWER, one.order, type, matrices, one.order,
                                       type, values, type, work, device_bytes, host_work.data(),
                                       host_bytes, info, one.batch));
        } else {
          check(cusolverDnXsyevd(solver.handle.get(), solver.parameters.get(), mode,
                                 CUBLAS_FILL_MODE_LOWER, one.order, type, matrices, one.order, type,
                                 values, type, work, device_bytes, host_work.data(), host_bytes,
                                 info));
        }
      },
      refill);
  for (double& sample : row.samples) {
    sample *= 1e-3 / static_cast<double>(one.batch);
  }
  std::vector<int> status(static_cast<std::size_t>(one.batch));
  check(cudaMemcpyAsync(status.data(), info, status.size() * sizeof(int), cudaMemcpyDeviceToHost,
                        probe.stream()));
  check(cudaStreamSynchronize(probe.stream()));
  const auto failed =
      std::count_if(status.begin(), status.end(), [](int code) { return code != 0; });
  const double error = one.is_wide ? trace_error(probe, one, static_cast<const double*>(values),
                                                 static_cast<const double*>(original))
                                   : trace_error(probe, one, static_cast<const float*>(values),
                                                 static_cast<const float*>(original));
  row.note +=
      "; last matrix's values off its trace by " + number(error) + (error < 1e-4 ? "" : ": WRONG");
  if (failed > 0) {
    row.note += "; " + std::to_string(failed) + " matrices with a status, the first " +
                std::to_string(*std::find_if(status.begin(), status.end(),
                                             [](int code) { return code != 0; }));
  }
}

/// What decides most comes first: the time limit may cut the rest.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t batch : {16, 64, 1}) {
    all.push_back({2048, batch, false, false, true});
    all.push_back({2048, batch, true, false, true});
  }
  all.push_back({2048, 1, false, false, false});
  all.push_back({2048, 1, true, false, false});
  all.push_back({2048, 127, false, false, true});  // the last batch below 2 GiB
  all.push_back({2048, 128, false, false, true});  // 2 GiB
  all.push_back({2048, 160, false, false, true});
  all.push_back({2048, 16, false, true, true});
  for (const std::int64_t order : {1024, 512, 256, 768}) {
    for (const std::int64_t batch : {64, 128, 1}) {
      all.push_back({order, batch, false, false, true});
      all.push_back({order, batch, true, false, true});
    }
    all.push_back({order, 64, false, true, true});
  }
  for (const std::int64_t batch : {16, 1}) {
    all.push_back({4096, batch, false, false, true});
    all.push_back({4096, batch, true, false, true});
  }
  all.push_back({2048, 16, true, true, true});
  all.push_back({4096, 32, false, false, true});  // 2 GiB
  return all;
}

}  // namespace

void probe_eigen(Probe& probe) {
  Solver solver(probe);
  for (const Case& one : cases()) {
    throughput::Row row{.name = one.is_batched ? "probe.syev_batched" : "probe.syevd",
                        .route = one.with_vectors ? "with vectors" : "values only",
                        .backend = "cuda",
                        .rows = one.order,
                        .cols = one.order,
                        .batch = one.batch,
                        .encoding = one.is_wide ? "F64" : "F32",
                        .unit = "ms_per_matrix",
                        .peer = one.is_batched ? "cusolver.XsyevBatched" : "cusolver.Xsyevd"};
    probe.run(std::move(row), [&](throughput::Row& found) {
      try {
        solve(probe, solver, one, found);
      } catch (const std::exception& error) {
        // The workspace is worth knowing where the call itself is refused.
        throw std::runtime_error(error.what() +
                                 (found.note.empty() ? std::string() : " (" + found.note + ")"));
      }
    });
  }
}

}  // namespace vindex::probe
