#include "tridiagonal/two_stage.hpp"

#include "device/range.hpp"

namespace vindex::kernels {

namespace {

/// Compute capabilities with float64 units for more than compatibility.
bool has_fast_float64(const DeviceTraits& device) {
  return (device.major == 8 && device.minor == 0) || device.major == 9 ||
         (device.major == 10 && device.minor == 0);
}

void tridiagonal_to_values(const KernelTable& kernels, const TwoStagePlan& plan,
                           const TwoStageArrays& arrays, const DeviceValues& out,
                           cudaStream_t stream) {
  const Range range("values");
  kernels.values(arrays.diagonal, arrays.off_diagonal, plan.p, plan.batch, ValueOrder::kDescending,
                 out.values, out.failed, stream, kTridiagonalRowsInShared);
}

}  // namespace

TwoStagePlan plan_two_stage(std::int64_t p, std::int64_t batch, bool is_float32, BandRoute band,
                            const DeviceTraits& device) {
  TwoStagePlan plan;
  plan.p = p;
  plan.batch = batch;
  plan.is_float32 = is_float32;
  plan.chase_in_float32 = is_float32 && !has_fast_float64(device);
  plan.band = is_float32 ? plan_band_reduction<float>(band_order(p), band, device.shared_bytes)
                         : plan_band_reduction<double>(band_order(p), band, device.shared_bytes);
  plan.chase =
      chase_shape(device.shared_bytes, plan.chase_in_float32 ? sizeof(float) : sizeof(double));
  return plan;
}

TwoStageArrays::TwoStageArrays(const TwoStagePlan& plan, Carver& memory) {
  const std::int64_t elements = plan.batch * chase_elements(plan.p);
  bands = plan.is_float32 ? static_cast<void*>(memory.take<float>(elements))
                          : static_cast<void*>(memory.take<double>(elements));
  workspace = memory.take<unsigned char>(
      plan.batch * static_cast<std::int64_t>(plan.band.workspace_bytes_per_matrix));
  diagonal = memory.take<double>(plan.batch * plan.p);
  off_diagonal = memory.take<double>(plan.batch * plan.p);
}

void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, float* matrices,
                      const TwoStageArrays& arrays, cublasHandle_t blas, const DeviceValues& out,
                      cudaStream_t stream) {
  auto* bands = static_cast<float*>(arrays.bands);
  {
    const Range range("band");
    kernels.band32(plan.band, {matrices, plan.batch, bands, out.exponents, arrays.workspace}, blas,
                   stream);
  }
  {
    const Range range("chase");
    const auto chase = plan.chase_in_float32 ? kernels.chase32 : kernels.chase32_in_64;
    chase(bands, plan.p, plan.batch, plan.chase, arrays.diagonal, arrays.off_diagonal, stream);
  }
  tridiagonal_to_values(kernels, plan, arrays, out, stream);
}

void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, double* matrices,
                      const TwoStageArrays& arrays, cublasHandle_t blas, const DeviceValues& out,
                      cudaStream_t stream) {
  auto* bands = static_cast<double*>(arrays.bands);
  {
    const Range range("band");
    kernels.band64(plan.band, {matrices, plan.batch, bands, out.exponents, arrays.workspace}, blas,
                   stream);
  }
  {
    const Range range("chase");
    kernels.chase64(bands, plan.p, plan.batch, plan.chase, arrays.diagonal, arrays.off_diagonal,
                    stream);
  }
  tridiagonal_to_values(kernels, plan, arrays, out, stream);
}

}  // namespace vindex::kernels
