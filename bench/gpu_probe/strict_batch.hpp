// Owns the batch of float64 stages, as `strict` has them: float64 Gram matrices of the codes of a
// StageBatch, by each kernel that can form them, and what follows to the values.
#pragma once

#include "probe.hpp"

#include "decode/formats/decode_view.hpp"
#include "kernels/band/band_reduction.hpp"
#include "kernels/band/chase/shared_chase.hpp"
#include "kernels/gram/codes/code_slices.hpp"

#include <span>

namespace vindex::probe {

class StrictBatch {
 public:
  /// Works on the first of `views`, which stay with the caller, as does `encoding`: at most
  /// most().
  StrictBatch(Probe& probe, const decode::Encoding& encoding,
              std::span<const decode::DecodeView> views);

  /// Matrices of a batch: those of a group of `strict`, which float64 makes small.
  static constexpr std::int64_t most() { return 64; }

  /// Gram matrices of codes; `rounded`: as for scales under which weights are rounded.
  void form(kernels::ProductKernel product, bool rounded);
  /// Of decoded weights, by cuBLAS.
  void form_by_library();
  /// Both triangles.
  void complete();
  /// Gram matrices, which are destroyed, to bands.
  void reduce();
  /// Bands, which are destroyed, to tridiagonal matrices.
  void chase();
  /// The same by flags.
  void shared_chase();
  /// Tridiagonal matrices, which are kept, to their values.
  void solve();

 private:
  std::int64_t count() const { return std::ssize(views_); }
  std::int64_t p() const { return shape_.short_side(); }
  std::int64_t gram_elements() const { return leading_ * leading_; }
  double* diagonal() { return values_.reserve_array<double>(0); }
  double* off_diagonal() { return diagonal() + count() * p(); }
  /// The Gram matrices, zero where nothing is written.
  double* fresh_grams();

  Probe& probe_;
  const decode::Encoding& encoding_;
  std::span<const decode::DecodeView> views_;
  kernels::GramShape shape_;
  std::int64_t leading_;
  kernels::BandPlan band_plan_;
  kernels::ChaseDevice device_;
  kernels::BlasHandle blas_;
  DeviceBuffer operands_{"operands of codes"};
  DeviceBuffer decoded_{"decoded weights"};
  DeviceBuffer wide_{"float64 weights"};
  DeviceBuffer moments_{"moments"};
  DeviceBuffer grams_{"float64 Gram matrices"};
  DeviceBuffer completion_{"completion"};
  DeviceBuffer facts_{"facts of float64"};
  DeviceBuffer bands_{"float64 bands"};
  DeviceBuffer band_workspace_{"float64 panels"};
  DeviceBuffer values_{"float64 values"};
  DeviceBuffer small_{"exponents of float64"};
  DeviceBuffer flags_{"flags of the float64 chase"};
};

}  // namespace vindex::probe
