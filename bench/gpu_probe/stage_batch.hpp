// Owns the batch that the group `stages` works on: what lies on the device between the codes of
// weights and their values, and a method for each step, by each kernel that can do it.
#pragma once

#include "back_batch.hpp"
#include "probe.hpp"
#include "strict_batch.hpp"

#include "decode/formats/decode_view.hpp"
#include "kernels/band/band_reduction.hpp"
#include "kernels/band/chase/band_chase.hpp"
#include "kernels/band/chase/shared_chase.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/gram/gram_plan.hpp"

#include <memory>

namespace vindex::probe {

/// Of as many matrices as probe.stages says, in 128 x 128 blocks of fp8.
class StageBatch {
 public:
  explicit StageBatch(Probe& probe);

  std::int64_t count() const { return count_; }
  /// Of the Gram matrices.
  std::int64_t order() const { return std::min(shape_.rows, shape_.cols); }

  /// Gram matrices of the codes, scaled; `native_operands`: by the device's conversions.
  void form(kernels::ProductKernel product, bool native_operands = false);

  /// Rows of the strips to try, on tensor cores; 0: as planned.
  std::vector<std::int64_t> strips() const {
    return probe_.stages.strip_rows.empty() ? std::vector<std::int64_t>{0}
                                            : probe_.stages.strip_rows;
  }
  /// Gram matrices, which are destroyed, to bands.
  void reduce(kernels::BandRoute route, std::int64_t strip_rows);
  /// With updates deferred over several panels.
  void reduce_deferred();

  /// Sweeps under way at once in arithmetic of Real, at most so many.
  template <typename Real>
  int sweeps_of(int most_sweeps) const {
    return kernels::chase_shape(shared_bytes(), sizeof(Real), most_sweeps).sweeps;
  }
  /// The first `matrices` bands, which are destroyed, to tridiagonal matrices.
  template <typename Real>
  void chase(int most_sweeps, std::int64_t matrices) {
    auto* const diagonal = values_.reserve_array<double>(0);
    kernels::chase_bands<float, Real>(
        bands_.reserve_array<float>(0), order(), matrices,
        kernels::chase_shape(shared_bytes(), sizeof(Real), most_sweeps), diagonal,
        diagonal + count_ * order(), probe_.stream());
  }
  /// The same by flags, as planned for so many matrices.
  template <typename Real>
  void shared_chase(std::int64_t matrices) {
    const kernels::ChaseDevice device = {
        .shared_bytes = shared_bytes(), .multiprocessors = probe_.properties().multiProcessorCount};
    auto* const flags = flags_.reserve_array<int>(
        static_cast<std::size_t>(std::max<std::int64_t>(1, kernels::most_chase_flags(device))));
    auto* const diagonal = values_.reserve_array<double>(0);
    kernels::shared_chase<float, Real>(
        bands_.reserve_array<float>(0), order(), matrices,
        kernels::chase_plan(order(), matrices, sizeof(float), sizeof(Real), device), flags,
        diagonal, diagonal + count_ * order(), probe_.stream());
  }

  /// Tridiagonal matrices, which are kept, to their values.
  void solve();
  /// The same in float32.
  void solve32();

  /// The float64 stages of the same codes; memory for them is taken when they are first asked for.
  StrictBatch& strict();
  std::int64_t strict_count() const { return std::min(count_, StrictBatch::most()); }
  /// Back-transformations at twice the order, so of 4096 where nothing else is asked for.
  BackBatch& back();
  std::int64_t back_order() const { return 2 * order(); }
  std::int64_t back_count() const { return std::min(count_, BackBatch::most()); }

 private:
  std::size_t shared_bytes() const { return probe_.properties().sharedMemPerBlockOptin; }
  /// With strips of at most `strip_rows` rows, as a device with less shared memory has them.
  kernels::BandPlan band_plan(kernels::BandRoute route, std::int64_t strip_rows) const;
  kernels::BandPlan deferred_plan() const;
  /// The batch of a reduction: matrices come scaled.
  kernels::BandBatch<float> band_batch();

  Probe& probe_;
  std::int64_t count_;
  decode::Encoding encoding_;
  kernels::GramShape shape_{.rows = probe_.stages.rows, .cols = probe_.stages.cols};
  kernels::OperandPlan plan_;
  std::vector<decode::DecodeView> views_;
  std::size_t workspace_bytes_ = 0;
  DeviceBuffer codes_{"codes"};
  DeviceBuffer workspace_{"operands"};
  DeviceBuffer grams_{"Gram matrices"};
  DeviceBuffer facts_{"facts"};
  DeviceBuffer bands_{"bands"};
  DeviceBuffer band_workspace_{"panels"};
  DeviceBuffer values_{"values"};
  DeviceBuffer small_{"exponents"};
  DeviceBuffer flags_{"flags of the chase"};
  std::unique_ptr<StrictBatch> strict_;
  std::unique_ptr<BackBatch> back_;
};

}  // namespace vindex::probe
