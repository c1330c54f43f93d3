// Owns the two-stage route from a batch of Gram matrices on the device to their eigenvalues: band
// reduction, bulge chasing, bisection, one after the other on a stream.
#pragma once

#include "precision.hpp"

#include "kernels/device/handles.hpp"
#include "kernels/route/cuda_route.hpp"
#include "kernels/route/kernel_table.hpp"

#include <cstdint>
#include <span>

namespace vindex::kernels {

/// Eigenvalues of a batch on the device: 2^exponents[i] * values[i * p + j].
struct DeviceValues {
  double* values = nullptr;
  int* failed = nullptr;
  std::int32_t* exponents = nullptr;
  double* passes = nullptr;  ///< what sum_passes() says of each band
};

/// How one batch is solved; memory and shapes follow from it.
struct TwoStagePlan {
  std::int64_t p = 0;
  std::int64_t batch = 0;
  bool is_float32 = false;
  bool already_scaled = false;  ///< MatrixScale::kApplied, exponents 0; of float32 matrices alone
  StagePrecision stages;        ///< behind a band of float32
  bool keeps_factor = false;    ///< bands and the factors that led to them stay, for a tail
  BandPlan band;
  ChaseShape chase;
  bool shared_chase = false;  ///< in place of `chase`, planned for the batch when it is there
  ChaseDevice chase_device;
  ChaseShape wide_chase;  ///< in float64
  /// Bands stay: for a tail, or for stages in float64 where those in float32 are not enough.
  bool keeps_bands() const { return keeps_factor || stages.any(); }
};
/// `newer`: what else is trusted beside the former kernels.
TwoStagePlan plan_two_stage(std::int64_t p, std::int64_t batch, bool is_float32, BandRoute band,
                            bool keeps_factor, const StagePrecision& stages,
                            const DeviceTraits& device, const NewerKernels& newer = {});

/// Scratch arrays, cut from memory that nothing else uses meanwhile.
struct TwoStageArrays {
  TwoStageArrays() = default;
  TwoStageArrays(const TwoStagePlan& plan, Arena& memory);
  void* bands = nullptr;
  void* kept_bands = nullptr;  ///< as the reduction left them; where they are kept
  void* workspace = nullptr;
  double* diagonal = nullptr;
  double* off_diagonal = nullptr;
  int* chase_flags = nullptr;  ///< of a shared chase
};

/// Eigenvalues, descending. `matrices` (batch x order x order of float or double, both triangles,
/// zero beyond p) is destroyed, or holds the factors (band_back_transform.hpp). Ordered on
/// `stream`. Does not wait.
void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, float* matrices,
                      const TwoStageArrays& arrays, const DeviceValues& out, cudaStream_t stream);
void two_stage_values(const KernelTable& kernels, const TwoStagePlan& plan, double* matrices,
                      const TwoStageArrays& arrays, const DeviceValues& out, cudaStream_t stream);

/// The stages behind the band once more, in float64, for the matrices at `positions` of a float32
/// batch whose bands were kept; their eigenvalues become the first of `out`, in that order. The
/// kept bands stay. Ordered on `stream`; does not wait.
void stages_in_float64(const KernelTable& kernels, const TwoStagePlan& plan,
                       const TwoStageArrays& arrays, std::span<const std::int64_t> positions,
                       const DeviceValues& out, cudaStream_t stream);

}  // namespace vindex::kernels
