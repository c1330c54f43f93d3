// Owns the batch that the group `stages` works on: what lies on the device between the codes of
// weights and their values, and a method for each step, by each kernel that can do it.
#pragma once

#include "probe.hpp"

#include "decode/decode_view.hpp"
#include "kernels/band/band_chase.hpp"
#include "kernels/band/band_reduction.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/gram/gram_plan.hpp"

namespace vindex::probe {

/// Of as many matrices as probe.stages says, in 128 x 128 blocks of fp8.
class StageBatch {
 public:
  explicit StageBatch(Probe& probe);

  std::int64_t count() const { return count_; }
  /// Of the Gram matrices.
  std::int64_t order() const { return std::min(shape_.rows, shape_.cols); }

  /// Gram matrices of the codes; `native`: operands by conversions of the device.
  void form(kernels::ProductKernel product, bool native = false);

  /// Rows of the strips to try, on tensor cores; 0: as planned.
  std::vector<std::int64_t> strips() const {
    return probe_.stages.strip_rows.empty() ? std::vector<std::int64_t>{0}
                                            : probe_.stages.strip_rows;
  }
  /// Gram matrices, which are destroyed, to bands.
  void reduce(kernels::BandRoute route, std::int64_t strip_rows);
  /// Whether this order gets deferred updates here, and the same with them.
  bool defers() const { return deferred_plan().deferred_panels > 0; }
  void reduce_deferred();

  /// Sweeps under way at once in arithmetic of Real, at most so many.
  template <typename Real>
  int sweeps_of(int most_sweeps) const {
    return kernels::chase_shape(shared_bytes(), sizeof(Real), most_sweeps).sweeps;
  }
  /// Bands, which are destroyed, to tridiagonal matrices.
  template <typename Real>
  void chase(int most_sweeps) {
    auto* const diagonal = values_.reserve_array<double>(0);
    kernels::chase_bands<float, Real>(
        bands_.reserve_array<float>(0), order(), count_,
        kernels::chase_shape(shared_bytes(), sizeof(Real), most_sweeps), diagonal,
        diagonal + count_ * order(), probe_.stream());
  }

  /// Tridiagonal matrices, which are kept, to their values; `single`: counted in float32.
  void solve(bool single = false);

 private:
  std::size_t shared_bytes() const { return probe_.properties().sharedMemPerBlockOptin; }
  /// With strips of at most `strip_rows` rows, as a device with less shared memory has them.
  kernels::BandPlan band_plan(kernels::BandRoute route, std::int64_t strip_rows) const;
  kernels::BandPlan deferred_plan() const;
  kernels::BandBatch<float, float> band_batch();

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
};

}  // namespace vindex::probe
