// Owns the order of the three stages and the memory between them. The band is in the precision of
// the reduction, the chase in float64 wherever the device has that: n sweeps pass over every
// element, and their rounding would exceed all that came before.
#include "two_stage.hpp"

#include "kernels/band/band_reduction.hpp"
#include "kernels/device/range.hpp"

namespace vindex::kernels {

namespace {

/// Compute capabilities with float64 units for more than compatibility.
bool has_fast_float64(const DeviceTraits& device) {
  return (device.major == 8 && device.minor == 0) || device.major == 9 ||
         (device.major == 10 && device.minor == 0);
}

/// What is to be known of the bands before the chase destroys them.
template <typename Real>
void keep_bands(const TwoStagePlan& plan, const TwoStageArrays& arrays, const DeviceValues& out,
                cudaStream_t stream) {
  const auto* bands = static_cast<const Real*>(arrays.bands);
  const std::int64_t order = plan.band.order;
  sum_passes(bands, order, plan.batch, out.passes, stream);
  if (plan.keeps_factor) {
    check(
        cudaMemcpyAsync(arrays.kept_bands, bands,
                        static_cast<std::size_t>(plan.batch * band_elements(order)) * sizeof(Real),
                        cudaMemcpyDeviceToDevice, stream));
  }
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
                            bool keeps_factor, const DeviceTraits& device,
                            const NewerKernels& newer) {
  TwoStagePlan plan;
  plan.p = p;
  plan.batch = batch;
  plan.is_float32 = is_float32;
  plan.keeps_factor = keeps_factor;
  plan.chase_in_float32 = is_float32 && !has_fast_float64(device);
  plan.band = is_float32 ? plan_band_reduction<float>(band_order(p), band, device.shared_bytes,
                                                      newer.deferred_band)
                         : plan_band_reduction<double>(band_order(p), band, device.shared_bytes);
  plan.chase =
      chase_shape(device.shared_bytes, plan.chase_in_float32 ? sizeof(float) : sizeof(double));
  return plan;
}

TwoStageArrays::TwoStageArrays(const TwoStagePlan& plan, Arena& memory) {
  const auto take = [&](std::int64_t elements) {
    return plan.is_float32 ? static_cast<void*>(memory.take<float>(elements))
                           : static_cast<void*>(memory.take<double>(elements));
  };
  bands = take(plan.batch * chase_elements(plan.p));
  kept_bands = plan.keeps_factor ? take(plan.batch * band_elements(plan.band.order)) : nullptr;
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
    const BandBatch<float, float> batch{matrices,      plan.batch,       bands,
                                        out.exponents, arrays.workspace, plan.keeps_factor};
    if (plan.band.deferred_panels > 0) {
      kernels.deferred_band(plan.band, batch, stream);
    } else {
      kernels.band32(plan.band, batch, blas, stream);
    }
    keep_bands<float>(plan, arrays, out, stream);
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
    kernels.band64(
        plan.band,
        {matrices, plan.batch, bands, out.exponents, arrays.workspace, plan.keeps_factor}, blas,
        stream);
    keep_bands<double>(plan, arrays, out, stream);
  }
  {
    const Range range("chase");
    kernels.chase64(bands, plan.p, plan.batch, plan.chase, arrays.diagonal, arrays.off_diagonal,
                    stream);
  }
  tridiagonal_to_values(kernels, plan, arrays, out, stream);
}

}  // namespace vindex::kernels
