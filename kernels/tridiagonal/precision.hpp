// Owns the choice of precision for the stages behind the band of one shape: how its chase and its
// bisection compute, from the error that the metrics contract leaves a spectrum; and whether what
// came of it may stand. Pure. A choice that proves wrong costs time and nothing else: what the
// stages round is in the error that a spectrum is stated with
// (statistics/judgement/spectrum_error.hpp), and where that is too much the float64 stages begin
// again from the band that was kept.
#pragma once

#include "kernels/route/cuda_route.hpp"
#include "statistics/judgement/spectrum_error.hpp"
#include "statistics/judgement/step_result.hpp"

#include <cstdint>

namespace vindex::kernels {

/// What computes in float32 behind a band of float32; the rest in float64.
struct StagePrecision {
  bool chase32 = false;
  bool values32 = false;
  bool any() const { return chase32 || values32; }
  friend bool operator==(const StagePrecision&, const StagePrecision&) = default;
};

/// Spectra of one shape, and what there is for them.
struct StageTask {
  std::int64_t rows = 0, cols = 0;
  bool is_float32 = false;  ///< sums and reduction
  bool is_fast = false;     ///< the largest values alone are promised
  NewerKernels newer = {};
  DeviceTraits device = {};
};

/// The arithmetic of `gram` with that of the stages behind it, for statistics::gram_rounding().
/// `sweeps`: of a group of a chase in float64 (BatchTask::stored_chase_sweeps()).
statistics::GramArithmetic with_stages(statistics::GramArithmetic gram, bool is_float32,
                                       const StagePrecision& stages, int sweeps);

/// The largest share of what `default` promises of a value that float32 stages are answered for
/// with, over the spectrum of pure noise of that shape.
double share_of_noise(std::int64_t rows, std::int64_t cols, const StagePrecision& stages);

/// Stages in float32 where their error leaves the promises of noise, which is what most of a
/// trained spectrum resembles, room enough; `fast`, which promises the largest values, always. A
/// device without fast float64 tries them first whatever the shape. All need their kernels to be
/// trusted.
StagePrecision choose_stages(const StageTask& task);

/// Whether a spectrum of float32 stages stands: judge() asks for nothing more, and of `default` no
/// promise, relative ones included, is left open by these stages rather than by what came before
/// them. `before`: the rounding of the same with float64 stages. `is_draw`: of the sign-flip null,
/// of which only a refuted check counts.
bool may_stand(const statistics::StepResult& found, const statistics::Rounding& before,
               const statistics::StepContext& situation, bool is_draw);

}  // namespace vindex::kernels
