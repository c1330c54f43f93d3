// Owns the order of launches of the reduction with deferred updates and how its workspace is cut.
#include "deferred_band.hpp"

#include "kernels/band/back_transform/band_back_transform.hpp"
#include "kernels/band/band_factors.hpp"
#include "kernels/band/band_panel.hpp"
#include "kernels/band/band_scale.hpp"
#include "kernels/device/check.hpp"
#include <vindex/error.hpp>

namespace vindex::kernels {
namespace {

/// float32 numbers of each part of the workspace per matrix, multiples of 64 so that all begin at
/// 256 bytes.
struct DeferredShares {
  explicit DeferredShares(const BandPlan& plan)
      : columns(plan.order * kBand),
        reflectors(plan.order * kFactorStride),
        slots(plan.deferred_panels * plan.order * kSlotRow),
        products(plan.order * kBand),
        partials(partial_elements(plan.order, plan.strip_rows)),
        overlaps(deferred_overlap_elements(plan.order)),
        turns(kMostTurns * kBand * kBand) {}

  std::int64_t total() const {
    return columns + reflectors + slots + products + partials + overlaps + turns + kSmall +
           3 * kFew;
  }

  static constexpr std::int64_t kSmall = 2 * kBand * kBand;
  static constexpr std::int64_t kFew = 64;  ///< of taus and units

  std::int64_t columns, reflectors, slots, products, partials, overlaps, turns;
};

}  // namespace

bool defers_updates(std::size_t shared_bytes) {
  return deferred_panels(largest_band_order(), shared_bytes) > 1;
}

BandPlan plan_deferred_band(std::int64_t order, std::size_t shared_bytes, int panels) {
  expects(order > 0 && order % kBand == 0 && order <= largest_band_order(),
          "order of a matrix to reduce to a band");
  expects(panels > 0 && panels <= kMostDeferred, "panels to update at once");
  BandPlan plan;
  plan.order = order;
  plan.route = BandRoute::kTensor;
  plan.strip_rows = deferred_strip_rows(shared_bytes);
  plan.deferred_panels = panels;
  plan.shared_bytes = shared_bytes;
  expects(plan.strip_rows > 0, "shared memory for the reduction to a band");
  plan.workspace_bytes_per_matrix =
      static_cast<std::size_t>(DeferredShares(plan).total()) * sizeof(float);
  return plan;
}

void reduce_to_band_deferred(const BandPlan& plan, const BandBatch<float>& batch,
                             cudaStream_t stream) {
  constexpr std::int64_t kLargestBatch = 65535;  // blocks in z
  expects(batch.batch > 0 && batch.batch <= kLargestBatch, "batch of the reduction to a band");
  expects(plan.deferred_panels > 0, "a plan with deferred updates");
  const DeferredShares shares(plan);
  const std::int64_t count = batch.batch;
  float* rest = static_cast<float*>(batch.workspace);
  const auto take = [&rest, count](std::int64_t share) {
    float* part = rest;
    rest += share * count;
    return part;
  };
  float* const reflectors = take(shares.reflectors);
  float* const taus = take(DeferredShares::kFew);
  DeferredStep step;
  step.matrices = batch.matrices;
  step.reflectors = reflectors;
  step.slots = take(shares.slots);
  step.units = take(DeferredShares::kFew);
  step.products = take(shares.products);
  step.partials = take(shares.partials);
  step.taus = taus;
  step.overlaps = take(shares.overlaps);
  step.small = take(DeferredShares::kSmall);
  step.turns = take(shares.turns);
  step.turn_units = take(DeferredShares::kFew);
  step.columns = take(shares.columns);
  step.band = batch.band;
  step.exponents = batch.exponents;
  step.order = plan.order;
  step.strip_rows = plan.strip_rows;
  step.batch = count;
  step.group = plan.deferred_panels;

  check(cudaMemsetAsync(batch.band, 0,
                        static_cast<std::size_t>(count * band_elements(plan.order)) * sizeof(float),
                        stream));
  if (batch.scale == MatrixScale::kWanted) {
    find_exponents(batch.matrices, plan.order, count, batch.exponents, stream);
  }
  step.scaled = batch.scale == MatrixScale::kApplied;
  take_first_panel(step, stream);
  for (std::int64_t start = 0; start + kBand < plan.order; start += kBand) {
    step.start = start + kBand;
    step.rows = plan.order - step.start;
    step.pending = static_cast<int>(start == 0 ? 0 : (start / kBand - 1) % step.group);
    factor_panels(Panel<float>{step.columns, reflectors, taus, batch.band, plan.order, step.rows,
                               start, count},
                  stream);
    multiply_deferred(step, plan.shared_bytes, stream);
    form_deferred_factors(step, stream);
    if (batch.keep_factor) {
      const Factors<float> kept{batch.matrices, reflectors, nullptr,   nullptr,         taus,
                                nullptr,        step.small, nullptr,   step.columns,    batch.band,
                                plan.order,     step.start, step.rows, plan.strip_rows, count};
      keep_panel(kept, batch.matrices, stream);
    }
    advance_deferred(step, stream);
    if ((step.is_first() || step.pending + 1 == step.group) && step.rows > kBand) {
      update_deferred(step, plan.shared_bytes, stream);
    }
  }
}

}  // namespace vindex::kernels
