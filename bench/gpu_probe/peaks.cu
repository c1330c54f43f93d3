// Arithmetic that plain kernels reach: independent chains in registers, on every multiprocessor;
// and what cuBLAS makes of large products of random matrices.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <intrinsics.hpp>

namespace vindex::probe {

namespace {

constexpr int kChains = 8;
constexpr int kRounds = 4096;
constexpr unsigned kThreads = 256;

template <typename T>
__global__ void multiply_add_kernel(T* sink) {
  T sums[kChains];
  for (int i = 0; i < kChains; ++i) {
    sums[i] = static_cast<T>(0.01 * (threadIdx.x + 7 * i + 1));
  }
  const auto factor = static_cast<T>(0.9990234375);
  const auto addend = static_cast<T>(0.0011);
  for (int round = 0; round < kRounds; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      sums[i] = fma(sums[i], factor, addend);
    }
  }
  T sum = 0;
  for (int i = 0; i < kChains; ++i) {
    sum += sums[i];
  }
  if (sum == static_cast<T>(-1)) {  // never; keeps the sums
    *sink = sum;
  }
}

enum class Unit { kF16, kBf16, kTf32, kF64 };

/// One product of a warp into `d`; operands differ from lane to lane and are no zeros.
template <Unit unit>
__device__ void product(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  if constexpr (unit == Unit::kF16) {
    kernels::device::mma_f16(d, a, b);
  } else if constexpr (unit == Unit::kBf16) {
    kernels::device::mma_bf16(d, a, b);
  } else {
    kernels::device::mma_tf32(d, a, b);
  }
}

template <Unit unit>
__global__ void tensor_kernel(float* sink) {
  const unsigned lane = threadIdx.x % 32;
  std::uint32_t a[4];
  std::uint32_t b[2];
  for (unsigned i = 0; i < 4; ++i) {
    // Two half-precision numbers near 1, or one tf32 near 1.
    const std::uint32_t noise = (lane * 2654435761U + i * 40503U) & 0x003F003FU;
    a[i] = unit == Unit::kF16    ? 0x3C003C00U | noise
           : unit == Unit::kBf16 ? 0x3F803F80U | (noise & 0x001F001FU)
                                 : 0x3F800000U | (noise << 13U);
    if (i < 2) {
      b[i] = a[i] ^ 0x80000000U;  // another sign, so that sums stay small
    }
  }
  float d[kChains][4] = {};
  for (int round = 0; round < kRounds / 4; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      product<unit>(d[i], a, b);
    }
  }
  float sum = 0.0F;
  for (const auto& chain : d) {
    sum += chain[0] + chain[1] + chain[2] + chain[3];
  }
  if (sum == -1.2345F) {  // never; keeps the sums
    *sink = sum;
  }
}

__global__ void tensor_f64_kernel(double* sink) {
  const double a = 1.0 + 0.01 * (threadIdx.x % 32);
  const double b = (threadIdx.x % 2 == 0 ? 1.0 : -1.0) * 0.5;
  double d[kChains][2] = {};
  for (int round = 0; round < kRounds / 4; ++round) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      kernels::device::mma_f64(d[i], a, b);
    }
  }
  double sum = 0.0;
  for (const auto& chain : d) {
    sum += chain[0] + chain[1];
  }
  if (sum == -1.2345) {  // never; keeps the sums
    *sink = sum;
  }
}

template <typename T>
void peak(Probe& probe, const std::string& what, double flop_per_thread, void (*kernel)(T*),
          T* sink) {
  probe.run(plain_row("probe.peak", what, "microseconds"), [&](throughput::Row& row) {
    const auto blocks = static_cast<unsigned>(probe.properties().multiProcessorCount) * 8;
    row.samples = probe.microseconds(
        [&] { kernels::launch(kernel, dim3(blocks), dim3(kThreads), 0, probe.stream(), sink); });
    row.note = rate_note(flop_per_thread * blocks * kThreads, row.samples);
  });
}

__global__ void convert_kernel(const float* from, std::int64_t count, __half* half,
                               __nv_bfloat16* bfloat, double* wide) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    half[i] = __float2half(from[i]);
    bfloat[i] = __float2bfloat16(from[i]);
    wide[i] = from[i];
  }
}

/// Square products by cuBLAS.
void library_peaks(Probe& probe) {
  constexpr int kSide = 8192;
  constexpr std::int64_t kCount = static_cast<std::int64_t>(kSide) * kSide;
  const kernels::BlasHandle blas = kernels::make_blas(probe.stream());
  DeviceBuffer values_memory("values");
  DeviceBuffer half_memory("half");
  DeviceBuffer bfloat_memory("bfloat");
  DeviceBuffer wide_memory("wide");
  DeviceBuffer result_memory("product");
  auto* const values = values_memory.reserve_array<float>(kCount);
  auto* const half = half_memory.reserve_array<__half>(kCount);
  auto* const bfloat = bfloat_memory.reserve_array<__nv_bfloat16>(kCount);
  auto* const wide = wide_memory.reserve_array<double>(kCount);
  auto* const result = result_memory.reserve_array<double>(kCount);
  fill_random(values, kCount, 3, probe.stream());
  kernels::launch(convert_kernel, dim3(4096), dim3(256), 0, probe.stream(),
                  static_cast<const float*>(values), kCount, half, bfloat, wide);
  struct Product {
    const char* name;
    int side;
    const void* from;
    cudaDataType_t type, result_type;
    cublasComputeType_t arithmetic;
  };
  for (const Product& one :
       {Product{"cuBLAS fp16", kSide, half, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        Product{"cuBLAS bf16", kSide, bfloat, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        Product{"cuBLAS tf32", kSide / 2, values, CUDA_R_32F, CUDA_R_32F,
                CUBLAS_COMPUTE_32F_FAST_TF32},
        Product{"cuBLAS fp32", kSide / 2, values, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
        Product{"cuBLAS fp64", kSide / 2, wide, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F}}) {
    throughput::Row row = plain_row("probe.peak", one.name, "microseconds");
    row.rows = row.cols = one.side;
    probe.run(row, [&](throughput::Row& found) {
      const float one_f = 1.0F;
      const float zero_f = 0.0F;
      const double one_d = 1.0;
      const double zero_d = 0.0;
      const bool is_wide = one.type == CUDA_R_64F;
      found.samples = probe.microseconds([&] {
        check(cublasGemmEx(blas.get(), CUBLAS_OP_N, CUBLAS_OP_T, one.side, one.side, one.side,
                           is_wide ? static_cast<const void*>(&one_d) : &one_f, one.from, one.type,
                           one.side, one.from, one.type, one.side,
                           is_wide ? static_cast<const void*>(&zero_d) : &zero_f, result,
                           one.result_type, one.side, one.arithmetic, CUBLAS_GEMM_DEFAULT));
      });
      const double side = one.side;
      found.note = rate_note(2.0 * side * side * side, found.samples);
    });
  }
}

}  // namespace

void probe_peaks(Probe& probe) {
  DeviceBuffer sink_memory("sink");
  auto* const sink = sink_memory.reserve_array<double>(1);
  auto* const sink_float = reinterpret_cast<float*>(sink);
  constexpr double kScalar = 2.0 * kChains * kRounds;
  constexpr double kProducts = kChains * kRounds / 4.0 / 32.0;  // of a warp, per thread
  peak(probe, "fp32 fma", kScalar, multiply_add_kernel<float>, sink_float);
  peak(probe, "fp64 fma", kScalar, multiply_add_kernel<double>, sink);
  peak(probe, "fp64 mma.sync", kProducts * 2.0 * 8 * 8 * 4, tensor_f64_kernel, sink);
  peak(probe, "fp16 mma.sync", kProducts * 2.0 * 16 * 8 * 16, tensor_kernel<Unit::kF16>,
       sink_float);
  peak(probe, "bf16 mma.sync", kProducts * 2.0 * 16 * 8 * 16, tensor_kernel<Unit::kBf16>,
       sink_float);
  peak(probe, "tf32 mma.sync", kProducts * 2.0 * 16 * 8 * 8, tensor_kernel<Unit::kTf32>,
       sink_float);
  library_peaks(probe);
}

}  // namespace vindex::probe
