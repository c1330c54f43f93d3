// All singular values of batches of float32 matrices by NVIDIA's libraries alone, the strongest
// ways that they offer: Gram matrices by cuBLAS and eigenvalues by cuSOLVER's batched solver, and
// its batched approximate SVD. What `default` is held against; times hold everything from weights
// in the device's memory to values. The sum of the last matrix's squared values is held against its
// norm.
#include "probe.hpp"

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <cmath>

namespace vindex::probe {

namespace {

/// Below this order a product alone does not fill a device, and all of a batch are formed at once.
constexpr std::int64_t kAloneFrom = 2048;

struct Buffers {
  DeviceBuffer weights{"weights"};
  DeviceBuffer grams{"Gram matrices"};
  DeviceBuffer values{"values"};
  DeviceBuffer vectors{"singular vectors"};
  DeviceBuffer work{"solver workspace"};
  DeviceBuffer info{"solver status"};
};

/// One case: row-major rows x cols weights of noise, to cuBLAS column-major cols x rows.
struct Singular {
  Singular(Probe& owner, Buffers& memory, const LibraryChoice::Case& one)
      : probe(owner),
        buffers(memory),
        rows(one.rows),
        cols(one.cols),
        batch(one.batch),
        order(std::min(one.rows, one.cols)),
        depth(std::max(one.rows, one.cols)) {}

  std::size_t room(std::int64_t each) const { return static_cast<std::size_t>(batch * each); }

  void make_weights() {
    weights = buffers.weights.reserve_array<float>(room(rows * cols));
    fill_random(weights, batch * rows * cols, 5, probe.stream());
    values = buffers.values.reserve_array<float>(room(order));
    info = buffers.info.reserve_array<int>(room(1));
    check(cudaMemsetAsync(info, 0xFF, room(sizeof(int)), probe.stream()));
    check(cudaMemsetAsync(values, 0, room(order) * sizeof(float), probe.stream()));
  }

  /// Milliseconds per matrix, and in the note what is wrong with the values. `squared`: they are
  /// eigenvalues of Gram matrices.
  void finish(throughput::Row& row, bool squared) const {
    for (double& sample : row.samples) {
      sample *= 1e-3 / static_cast<double>(batch);
    }
    std::vector<int> status(room(1));
    check(cudaMemcpyAsync(status.data(), info, status.size() * sizeof(int), cudaMemcpyDeviceToHost,
                          probe.stream()));
    const std::vector<float> found = last_of(values, order);
    const std::vector<float> entries = last_of(weights, rows * cols);
    double sum = 0.0;
    for (const double value : found) {
      sum += squared ? value : value * value;
    }
    double norm = 0.0;
    for (const double entry : entries) {
      norm += entry * entry;
    }
    const double error = std::abs(sum / norm - 1.0);
    row.note +=
        "; last matrix's values off its norm by " + number(error) + (error < 1e-4 ? "" : ": WRONG");
    const auto failed =
        std::count_if(status.begin(), status.end(), [](int code) { return code != 0; });
    if (failed > 0) {
      row.note += "; " + std::to_string(failed) + " matrices with a status";
    }
  }

  std::vector<float> last_of(const float* all, std::int64_t each) const {
    std::vector<float> one(static_cast<std::size_t>(each));
    check(cudaMemcpyAsync(one.data(), all + (batch - 1) * each, one.size() * sizeof(float),
                          cudaMemcpyDeviceToHost, probe.stream()));
    check(cudaStreamSynchronize(probe.stream()));
    return one;
  }

  Probe& probe;
  Buffers& buffers;
  std::int64_t rows, cols, batch, order, depth;
  float* weights = nullptr;
  float* values = nullptr;
  int* info = nullptr;
};

/// Lower triangles of the Gram matrices over the short side. Row-major W is column-major W^T, so
/// W^T W of a tall matrix is the first operand by itself.
void form_grams(const Singular& on, cublasHandle_t blas, float* grams) {
  const auto order = static_cast<int>(on.order);
  const auto depth = static_cast<int>(on.depth);
  const auto leading = static_cast<int>(on.cols);
  const bool is_tall = on.rows >= on.cols;
  const cublasOperation_t first = is_tall ? CUBLAS_OP_N : CUBLAS_OP_T;
  const cublasOperation_t second = is_tall ? CUBLAS_OP_T : CUBLAS_OP_N;
  const float one = 1.0F;
  const float zero = 0.0F;
  const std::int64_t each = on.rows * on.cols;
  if (on.order < kAloneFrom) {
    check(cublasSgemmStridedBatched(blas, first, second, order, order, depth, &one, on.weights,
                                    leading, each, on.weights, leading, each, &zero, grams, order,
                                    on.order * on.order, static_cast<int>(on.batch)));
    return;
  }
  for (std::int64_t i = 0; i < on.batch; ++i) {
    check(cublasSsyrk(blas, CUBLAS_FILL_MODE_LOWER, first, order, depth, &one,
                      on.weights + i * each, leading, &zero, grams + i * on.order * on.order,
                      order));
  }
}

struct Handles {
  explicit Handles(Probe& probe)
      : blas(kernels::make_blas(probe.stream())),
        solver(kernels::make_solver(probe.stream())),
        parameters(kernels::make_solver_parameters()) {}
  kernels::BlasHandle blas;
  kernels::SolverHandle solver;
  kernels::SolverParameters parameters;
};

void by_gram(Handles& handles, Singular& on, throughput::Row& row) {
  on.make_weights();
  auto* const grams = on.buffers.grams.reserve_array<float>(on.room(on.order * on.order));
  const auto form = [&] { form_grams(on, handles.blas.get(), grams); };
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  check(cusolverDnXsyevBatched_bufferSize(
      handles.solver.get(), handles.parameters.get(), CUSOLVER_EIG_MODE_NOVECTOR,
      CUBLAS_FILL_MODE_LOWER, on.order, CUDA_R_32F, grams, on.order, CUDA_R_32F, on.values,
      CUDA_R_32F, &device_bytes, &host_bytes, on.batch));
  void* const work = on.buffers.work.reserve(std::max<std::size_t>(device_bytes, 1));
  std::vector<std::byte> host_work(std::max<std::size_t>(host_bytes, 1));
  const std::vector<double> alone = on.probe.microseconds(form);
  row.samples = on.probe.microseconds([&] {
    form();
    check(cusolverDnXsyevBatched(
        handles.solver.get(), handles.parameters.get(), CUSOLVER_EIG_MODE_NOVECTOR,
        CUBLAS_FILL_MODE_LOWER, on.order, CUDA_R_32F, grams, on.order, CUDA_R_32F, on.values,
        CUDA_R_32F, work, device_bytes, host_work.data(), host_bytes, on.info, on.batch));
  });
  row.note =
      "float32 weights on the device to singular values; of which Gram matrices " +
      number(1e-3 * *std::min_element(alone.begin(), alone.end()) / static_cast<double>(on.batch)) +
      " ms; workspace " + number(static_cast<double>(device_bytes) / 0x1p20) + " MiB";
  on.finish(row, true);
}

/// What gesvda is made for: tall column-major matrices.
void by_svd(Handles& handles, Singular& on, throughput::Row& row) {
  on.make_weights();
  const auto m = static_cast<int>(on.depth);
  const auto n = static_cast<int>(on.order);
  const std::int64_t each = on.rows * on.cols;
  const std::int64_t square = on.order * on.order;
  // Not written without vectors; there all the same, because nothing says what it looks at.
  auto* const left = on.buffers.vectors.reserve_array<float>(on.room(each + square));
  float* const right = left + on.batch * each;
  int elements = 0;
  check(cusolverDnSgesvdaStridedBatched_bufferSize(
      handles.solver.get(), CUSOLVER_EIG_MODE_NOVECTOR, n, m, n, on.weights, m, each, on.values,
      on.order, left, m, each, right, n, square, &elements, static_cast<int>(on.batch)));
  auto* const work = on.buffers.work.reserve_array<float>(static_cast<std::size_t>(elements) + 1);
  std::vector<double> residuals(on.room(1));
  row.samples = on.probe.microseconds([&] {
    check(cusolverDnSgesvdaStridedBatched(handles.solver.get(), CUSOLVER_EIG_MODE_NOVECTOR, n, m, n,
                                          on.weights, m, each, on.values, on.order, left, m, each,
                                          right, n, square, work, elements, on.info,
                                          residuals.data(), static_cast<int>(on.batch)));
  });
  row.note = "float32 weights on the device to singular values; workspace " +
             number(4.0 * elements / 0x1p20) + " MiB";
  on.finish(row, false);
}

/// Every case, the sizes in which experts come first.
void time_all(Probe& probe, const char* route, const char* peer,
              void (*run)(Handles&, Singular&, throughput::Row&)) {
  Handles handles(probe);
  Buffers buffers;
  for (const LibraryChoice::Case& one : probe.libraries.cases) {
    const throughput::Row row{.name = "spectra.default",
                              .route = route,
                              .backend = "cuda",
                              .rows = one.rows,
                              .cols = one.cols,
                              .batch = one.batch,
                              .encoding = "F32",
                              .spectrum = "noise",
                              .unit = "ms_per_matrix",
                              .peer = peer};
    probe.run(row, [&](throughput::Row& found) {
      Singular on(probe, buffers, one);
      run(handles, on, found);
    });
  }
}

}  // namespace

void probe_values(Probe& probe) {
  time_all(probe, "gram32+XsyevBatched", "cusolver.XsyevBatched", by_gram);
}

void probe_svd(Probe& probe) {
  time_all(probe, "gesvdaStridedBatched", "cusolver.SgesvdaStridedBatched", by_svd);
}

}  // namespace vindex::probe
