// Owns the making of a BackBatch (reductions that keep their factors) and its turn by either
// kernel.
#include "back_batch.hpp"

#include "kernels/band/back_transform/wide_back_transform.hpp"
#include "kernels/band/band_reduction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::probe {

using namespace kernels;

namespace {

constexpr std::int64_t kColumns = 64;  ///< of a tail of 32 values with its guard

}  // namespace

BackBatch::BackBatch(Probe& probe, std::int64_t order, std::int64_t slots)
    : probe_(probe), order_(band_order(order)), slots_(std::min(slots, most())) {
  const auto room = [&](std::int64_t each) { return static_cast<std::size_t>(slots_ * each); };
  auto* const matrices = matrices_.reserve_array<float>(room(order_ * order_));
  auto* const columns = columns_.reserve_array<double>(room(order_ * kColumns));
  scratch_.reserve(static_cast<std::size_t>(wide_transform_scratch(order_, kColumns, slots_)) *
                   sizeof(float));
  std::vector<std::int64_t> which(static_cast<std::size_t>(slots_));
  std::iota(which.begin(), which.end(), 0);
  auto* const slots_there = which_.reserve_array<std::int64_t>(which.size());
  check(cudaMemcpyAsync(slots_there, which.data(), which.size() * sizeof(std::int64_t),
                        cudaMemcpyHostToDevice, probe.stream()));
  std::vector<double> values(room(order_ * kColumns));
  std::uint64_t state = 1;
  for (double& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = std::ldexp(static_cast<double>(state >> 11U), -52) - 1.0;
  }
  check(cudaMemcpyAsync(columns, values.data(), values.size() * sizeof(double),
                        cudaMemcpyHostToDevice, probe.stream()));
  fill_random(matrices, slots_ * order_ * order_, 7, probe.stream());
  const BandPlan plan = plan_band_reduction<float>(order_, BandRoute::kTensor,
                                                   probe.properties().sharedMemPerBlockOptin);
  DeviceBuffer bands("bands of factors");
  DeviceBuffer workspace("panels of factors");
  DeviceBuffer exponents("exponents of factors");
  reduce_to_band<float>(plan,
                        {.matrices = matrices,
                         .batch = slots_,
                         .band = bands.reserve_array<float>(room(band_elements(order_))),
                         .exponents = exponents.reserve_array<std::int32_t>(room(1)),
                         .workspace = workspace.reserve(room(1) * plan.workspace_bytes_per_matrix),
                         .keep_factor = true},
                        probe.stream());
  check(cudaStreamSynchronize(probe.stream()));
}

void BackBatch::turn(bool wide) {
  auto* const columns = columns_.reserve_array<double>(0);
  const TransformedColumns place = {columns, order_, order_ * kColumns, order_};
  const BackTransform<float> task = {.matrices = matrices_.reserve_array<float>(0),
                                     .which = which_.reserve_array<std::int64_t>(0),
                                     .order = order_,
                                     .columns = kColumns,
                                     .slots = slots_,
                                     .transposed = true,
                                     .from = place,
                                     .to = place,
                                     .scratch = scratch_.reserve_array<float>(0)};
  if (wide) {
    wide_back_transform(task, wide_transform_warps(probe_.properties().sharedMemPerBlockOptin),
                        probe_.stream());
  } else {
    back_transform(task, probe_.stream());
  }
}

}  // namespace vindex::probe
