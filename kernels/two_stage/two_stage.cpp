// Owns the order of the three stages and the memory between them. The band is in the precision of
// the reduction, what is behind it in what precision.hpp says.
#include "two_stage.hpp"

#include "kernels/band/band_batch.hpp"
#include "kernels/band/band_norm.hpp"
#include "kernels/band/reduction/band_reduction.hpp"
#include "kernels/device/range.hpp"

namespace vindex::kernels {

namespace {

/// What is to be known of the bands before the chase destroys them.
template <typename Real>
void keep_bands(const TwoStagePlan& plan, const TwoStageArrays& arrays, const DeviceValues& out,
                cudaStream_t stream) {
  const auto* bands = static_cast<const Real*>(arrays.bands);
  const std::int64_t order = plan.band.order;
  sum_passes(bands, order, plan.batch, out.passes, stream);
  if (plan.keeps_bands()) {
    check(
        cudaMemcpyAsync(arrays.kept_bands, bands,
                        static_cast<std::size_t>(plan.batch * band_elements(order)) * sizeof(Real),
                        cudaMemcpyDeviceToDevice, stream));
  }
}

/// From bands to tridiagonal matrices, by one of two kernels.
template <typename Real, typename Stored, typename Former, typename Shared>
void chase(const TwoStagePlan& plan, const TwoStageArrays& arrays, Stored* bands,
           const ChaseShape& shape, Former former, Shared shared, cudaStream_t stream) {
  const Range range("chase");
  if (plan.shared_chase) {
    shared(bands, plan.p, plan.batch,
           chase_plan(plan.p, plan.batch, sizeof(Stored), sizeof(Real), plan.chase_device),
           arrays.chase_flags, arrays.diagonal, arrays.off_diagonal, stream, kChasePatience);
  } else {
    former(bands, plan.p, plan.batch, shape, arrays.diagonal, arrays.off_diagonal, stream);
  }
}

void tridiagonal_to_values(const KernelTable& kernels, const TwoStagePlan& plan,
                           const TwoStageArrays& arrays, const DeviceValues& out,
                           cudaStream_t stream) {
  const Range range("values");
  const auto values = plan.stages.values32 ? kernels.values32 : kernels.values;
  values(arrays.diagonal, arrays.off_diagonal, plan.p, plan.batch, ValueOrder::kDescending,
         out.values, out.failed, stream, kTridiagonalRowsInShared);
}

}  // namespace

TwoStagePlan plan_two_stage(std::int64_t p, std::int64_t batch, bool is_float32, BandRoute band,
                            bool keeps_factor, const StagePrecision& stages,
                            const DeviceTraits& device, const NewerKernels& newer) {
  TwoStagePlan plan;
  plan.p = p;
  plan.batch = batch;
  plan.is_float32 = is_float32;
  plan.keeps_factor = keeps_factor;
  plan.stages = is_float32 ? stages : StagePrecision{};
  plan.band = is_float32 ? plan_band_reduction<float>(band_order(p), band, device.shared_bytes,
                                                      newer.deferred_band)
                         : plan_band_reduction<double>(band_order(p), band, device.shared_bytes);
  plan.wide_chase = chase_shape(device.shared_bytes, sizeof(double));
  plan.chase =
      plan.stages.chase32 ? chase_shape(device.shared_bytes, sizeof(float)) : plan.wide_chase;
  plan.shared_chase = newer.shared_chase;
  plan.chase_device = {.shared_bytes = device.shared_bytes,
                       .multiprocessors = device.multiprocessors};
  return plan;
}

TwoStageArrays::TwoStageArrays(const TwoStagePlan& plan, Arena& memory) {
  const auto take = [&](std::int64_t elements) {
    return plan.is_float32 ? static_cast<void*>(memory.take<float>(elements))
                           : static_cast<void*>(memory.take<double>(elements));
  };
  bands = take(plan.batch * chase_elements(plan.p));
  kept_bands = plan.keeps_bands() ? take(plan.batch * band_elements(plan.band.order)) : nullptr;
  workspace = memory.take<unsigned char>(
      plan.batch * static_cast<std::int64_t>(plan.band.workspace_bytes_per_matrix));
  diagonal = memory.take<double>(plan.batch * plan.p);
  off_diagonal = memory.take<double>(plan.batch * plan.p);
  chase_flags = plan.shared_chase ? memory.take<int>(most_chase_flags(plan.chase_device)) : nullptr;
}

void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, float* matrices,
                      const TwoStageArrays& arrays, const DeviceValues& out, cudaStream_t stream) {
  auto* bands = static_cast<float*>(arrays.bands);
  {
    const Range range("band");
    BandBatch<float> batch{matrices,      plan.batch,       bands,
                           out.exponents, arrays.workspace, plan.keeps_factor};
    if (plan.already_scaled) {
      batch.scale = MatrixScale::kApplied;
      check(cudaMemsetAsync(out.exponents, 0,
                            static_cast<std::size_t>(plan.batch) * sizeof(*out.exponents), stream));
    }
    if (plan.band.deferred_panels > 0) {
      kernels.deferred_band(plan.band, batch, stream);
    } else {
      kernels.band32(plan.band, batch, stream);
    }
    keep_bands<float>(plan, arrays, out, stream);
  }
  if (plan.stages.chase32) {
    chase<float>(plan, arrays, bands, plan.chase, kernels.chase32, kernels.shared_chase32, stream);
  } else {
    chase<double>(plan, arrays, bands, plan.chase, kernels.chase32_in_64,
                  kernels.shared_chase32_in_64, stream);
  }
  tridiagonal_to_values(kernels, plan, arrays, out, stream);
}

void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, double* matrices,
                      const TwoStageArrays& arrays, const DeviceValues& out, cudaStream_t stream) {
  auto* bands = static_cast<double*>(arrays.bands);
  {
    const Range range("band");
    kernels.band64(
        plan.band,
        {matrices, plan.batch, bands, out.exponents, arrays.workspace, plan.keeps_factor}, stream);
    keep_bands<double>(plan, arrays, out, stream);
  }
  chase<double>(plan, arrays, bands, plan.chase, kernels.chase64, kernels.shared_chase64, stream);
  tridiagonal_to_values(kernels, plan, arrays, out, stream);
}

void stages_in_float64(const KernelTable& kernels, const TwoStagePlan& plan,
                       const TwoStageArrays& arrays, std::span<const std::int64_t> positions,
                       const DeviceValues& out, cudaStream_t stream) {
  expects(plan.is_float32 && plan.keeps_bands() && std::ssize(positions) <= plan.batch,
          "float32 bands that were kept");
  const std::int64_t elements = chase_elements(plan.p);
  auto* bands = static_cast<float*>(arrays.bands);
  const auto* kept = static_cast<const float*>(arrays.kept_bands);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    check(cudaMemcpyAsync(
        bands + static_cast<std::int64_t>(i) * elements, kept + positions[i] * elements,
        static_cast<std::size_t>(elements) * sizeof(float), cudaMemcpyDeviceToDevice, stream));
  }
  TwoStagePlan wide = plan;
  wide.batch = std::ssize(positions);
  wide.stages = {};
  chase<double>(wide, arrays, bands, wide.wide_chase, kernels.chase32_in_64,
                kernels.shared_chase32_in_64, stream);
  tridiagonal_to_values(kernels, wide, arrays, out, stream);
}

}  // namespace vindex::kernels
