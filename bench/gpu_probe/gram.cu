// Gram matrices by cuBLAS in every arithmetic it offers, beside the bias of their diagonal and
// their largest error against float64: a plain half-precision product truncates its long sums.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

#include <cublas_v2.h>
#include <cuda_fp16.h>

#include <cmath>

namespace vindex::probe {

namespace {

/// Values as e4m3 has them (1 + 3 bits of significand), so that half precision holds them exactly.
__global__ void round_kernel(float* values, std::int64_t count, __half* half, double* wide) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    int exponent = 0;
    const float significand = frexpf(values[i], &exponent);
    const float rounded = ldexpf(rintf(significand * 16.0F), exponent - 4);
    // Beyond seven binades below the largest value e4m3 steps evenly.
    values[i] = fabsf(rounded) < 0x1p-7F ? rintf(values[i] * 0x1p10F) * 0x1p-10F : rounded;
    half[i] = __float2half(values[i]);
    wide[i] = values[i];
  }
}

/// Stored rows x cols, row-major; the Gram matrix is over the short side.
struct Shape {
  std::int64_t rows, cols;
  bool over_rows() const { return rows >= cols; }
  std::int64_t order() const { return std::min(rows, cols); }
  std::int64_t depth() const { return std::max(rows, cols); }
  /// cuBLAS sees the array as column-major cols x rows.
  int leading() const { return static_cast<int>(cols); }
  cublasOperation_t first() const { return over_rows() ? CUBLAS_OP_N : CUBLAS_OP_T; }
  cublasOperation_t second() const { return over_rows() ? CUBLAS_OP_T : CUBLAS_OP_N; }
  /// Elements from one k to the next.
  std::int64_t depth_stride() const { return over_rows() ? cols : 1; }
};

struct Arrays {
  Shape shape{};
  float* values = nullptr;
  __half* half = nullptr;
  double* wide = nullptr;
  float* gram = nullptr;
  double* wide_gram = nullptr;
};

/// G = A^T A (or A A^T) by cublasGemmEx, K cut into pieces that are added in float32.
void product(cublasHandle_t blas, const Arrays& on, const void* from, cudaDataType_t type,
             cublasComputeType_t arithmetic, std::int64_t piece) {
  const int order = static_cast<int>(on.shape.order());
  const std::size_t element = type == CUDA_R_16F ? 2 : 4;
  const float one = 1.0F;
  for (std::int64_t k = 0; k < on.shape.depth(); k += piece) {
    const float beta = k == 0 ? 0.0F : 1.0F;
    const auto* const part = static_cast<const std::byte*>(from) +
                             static_cast<std::size_t>(k * on.shape.depth_stride()) * element;
    check(cublasGemmEx(blas, on.shape.first(), on.shape.second(), order, order,
                       static_cast<int>(std::min(piece, on.shape.depth() - k)), &one, part, type,
                       on.shape.leading(), part, type, on.shape.leading(), &beta, on.gram,
                       CUDA_R_32F, order, arithmetic, CUBLAS_GEMM_DEFAULT));
  }
}

/// Lower triangle of column-major `found` against `exact`, both on the host.
template <typename T>
std::pair<double, double> errors(const std::vector<T>& found, const std::vector<double>& exact,
                                 std::int64_t order) {
  double bias = 0.0;
  double largest = 0.0;
  for (std::int64_t j = 0; j < order; ++j) {
    const double diagonal = exact[static_cast<std::size_t>(j * order + j)];
    bias += static_cast<double>(found[static_cast<std::size_t>(j * order + j)]) / diagonal - 1.0;
    for (std::int64_t i = j; i < order; ++i) {
      const auto place = static_cast<std::size_t>(j * order + i);
      const double scale = std::sqrt(diagonal * exact[static_cast<std::size_t>(i * order + i)]);
      largest =
          std::max(largest, std::abs(static_cast<double>(found[place]) - exact[place]) / scale);
    }
  }
  return {bias / static_cast<double>(order), largest};
}

template <typename T>
std::vector<T> to_host(const T* device, std::int64_t count, cudaStream_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(values.data(), device, values.size() * sizeof(T), cudaMemcpyDeviceToHost,
                        stream));
  check(cudaStreamSynchronize(stream));
  return values;
}

/// Times `work`, whose result lies in on.gram (or wide_gram), and compares it.
void variant(Probe& probe, const Arrays& on, const std::vector<double>& exact,
             const std::string& name, std::int64_t batch, bool is_wide,
             const std::function<void()>& work) {
  const throughput::Row row{.name = "gram",
                            .route = name,
                            .backend = "cuda",
                            .rows = on.shape.rows,
                            .cols = on.shape.cols,
                            .batch = batch,
                            .encoding = "F32",
                            .unit = "ms_per_matrix",
                            .peer = "cublas." + name};
  bool succeeded = false;
  probe.run(row, [&](throughput::Row& found) {
    found.samples = probe.microseconds(work);
    for (double& sample : found.samples) {
      sample *= 1e-3 / static_cast<double>(batch);
    }
    succeeded = !found.samples.empty();
  });
  if (!succeeded) {
    return;
  }
  const std::int64_t order = on.shape.order();
  const auto [bias, largest] =
      is_wide ? errors(to_host(on.wide_gram, order * order, probe.stream()), exact, order)
              : errors(to_host(on.gram, order * order, probe.stream()), exact, order);
  throughput::Row error = row;
  error.unit = "share";
  error.name = "probe.error.gram_diagonal_bias";
  probe.run(error, [&, value = bias](throughput::Row& found) { found.samples = {value}; });
  error.name = "probe.error.gram_largest";
  probe.run(error, [&, value = largest](throughput::Row& found) { found.samples = {value}; });
}

void probe_shape(Probe& probe, cublasHandle_t blas, const Shape& shape, DeviceBuffer& memory) {
  constexpr std::int64_t kBatch = 8;
  const std::int64_t count = shape.rows * shape.cols;
  const std::int64_t square = shape.order() * shape.order();
  const auto bytes =
      static_cast<std::size_t>(count * (8 + 2 + 4 * kBatch) + square * (8 + 4 * kBatch) + 4096);
  auto* place = static_cast<std::byte*>(memory.reserve(bytes));
  const auto take = [&place](std::int64_t size) {
    return std::exchange(place, place + (size + 255) / 256 * 256);
  };
  Arrays on{.shape = shape};
  on.wide = reinterpret_cast<double*>(take(8 * count));
  on.wide_gram = reinterpret_cast<double*>(take(8 * square));
  on.values = reinterpret_cast<float*>(take(4 * kBatch * count));
  on.gram = reinterpret_cast<float*>(take(4 * kBatch * square));
  on.half = reinterpret_cast<__half*>(take(2 * count));
  fill_random(on.values, count, 11, probe.stream());
  kernels::launch(round_kernel, dim3(4096), dim3(256), 0, probe.stream(), on.values, count, on.half,
                  on.wide);
  for (std::int64_t i = 1; i < kBatch; ++i) {
    check(cudaMemcpyAsync(on.values + i * count, on.values, static_cast<std::size_t>(4 * count),
                          cudaMemcpyDeviceToDevice, probe.stream()));
  }
  const int order = static_cast<int>(shape.order());
  const int depth = static_cast<int>(shape.depth());
  const float one = 1.0F;
  const float zero = 0.0F;
  const double wide_one = 1.0;
  const double wide_zero = 0.0;
  check(cublasDgemm(blas, shape.first(), shape.second(), order, order, depth, &wide_one, on.wide,
                    shape.leading(), on.wide, shape.leading(), &wide_zero, on.wide_gram, order));
  const std::vector<double> exact = to_host(on.wide_gram, square, probe.stream());

  variant(probe, on, exact, "dsyrk", 1, true, [&] {
    check(cublasDsyrk(blas, CUBLAS_FILL_MODE_LOWER, shape.first(), order, depth, &wide_one, on.wide,
                      shape.leading(), &wide_zero, on.wide_gram, order));
  });
  variant(probe, on, exact, "ssyrk", 1, false, [&] {
    check(cublasSsyrk(blas, CUBLAS_FILL_MODE_LOWER, shape.first(), order, depth, &one, on.values,
                      shape.leading(), &zero, on.gram, order));
  });
  for (const bool tf32 : {false, true}) {
    variant(probe, on, exact, tf32 ? "tf32_gemm_batched" : "sgemm_batched", kBatch, false, [&] {
      check(cublasGemmStridedBatchedEx(
          blas, shape.first(), shape.second(), order, order, depth, &one, on.values, CUDA_R_32F,
          shape.leading(), count, on.values, CUDA_R_32F, shape.leading(), count, &zero, on.gram,
          CUDA_R_32F, order, square, static_cast<int>(kBatch),
          tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    });
  }
  for (const std::int64_t piece :
       {shape.depth(), std::int64_t{1024}, std::int64_t{256}, std::int64_t{128}}) {
    const std::string name =
        piece == shape.depth() ? "fp16_gemm" : "fp16_gemm_k" + std::to_string(piece);
    variant(probe, on, exact, name, 1, false,
            [&] { product(blas, on, on.half, CUDA_R_16F, CUBLAS_COMPUTE_32F, piece); });
  }
}

}  // namespace

void probe_gram(Probe& probe) {
  const kernels::BlasHandle blas = kernels::make_blas(probe.stream());
  DeviceBuffer memory("Gram probes");
  for (const Shape& shape : {Shape{7168, 2048}, Shape{2048, 7168}}) {
    probe_shape(probe, blas.get(), shape, memory);
  }
}

}  // namespace vindex::probe
