// Owns the choice of sweeps, ring and blocks of a shared chase: a model of its time, and the search
// for the least.
#include "shared_chase.hpp"
#include "shared_chase_layout.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <optional>
#include <string>

namespace vindex::kernels {

namespace {

/// Cycles of a half step. In lock step, on an H200 at 1.76 GHz
/// (bench/results/h200/stages.json), it took 1,780 cycles with 7 float32 sweeps and 2,850 with
/// 14: some 730 that do not depend on sweeps, which is latency of sums that wait for each other,
/// and 151 for each. A sweep alone takes both, and some 70 for its flags. Here float32 sweeps issue
/// 248 instructions a half step and warp (124 cycles a sweep, 420 instructions before) and take 121
/// cycles of shared memory's pipe (loads, stores, shuffles): 135 with what such pipes lose. Float64
/// took 2,560 with 7 sweeps, of which 1,876 were of that pipe (counted). To be measured again.
struct HalfStep {
  double latency = 0.0;
  double per_sweep = 0.0;  ///< of what sweeps take in turn
};
constexpr HalfStep half_step_of(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? HalfStep{.latency = 950.0, .per_sweep = 135.0}
                                        : HalfStep{.latency = 1020.0, .per_sweep = 268.0};
}

/// What the kernel's registers let a multiprocessor hold, whatever the blocks.
constexpr int warps_of_multiprocessor(std::size_t element_bytes) {
  return element_bytes == sizeof(float) ? 32 : 16;
}
/// Shared memory of a multiprocessor that blocks may not ask for, and what each block takes of it.
constexpr std::size_t kReserved = 1024;
/// Blocks of a ring beyond what sweeps three half steps apart need, so that they may drift.
constexpr int kMostSlack = 3;

/// Half steps from the start of a group to that of the next: its last sweep starts 3 per sweep
/// later, has to be three steps down, and what it leaves goes through global memory, which takes
/// some 2 us.
constexpr double lag_of(int sweeps) { return 3.0 * (sweeps - 1) + 8.0 + 3.0; }

int blocks_on_multiprocessor(int sweeps, int ring_blocks, std::size_t element_bytes,
                             const ChaseDevice& device) {
  const std::size_t bytes = chase_layout::shared_bytes_for(sweeps, ring_blocks, element_bytes);
  if (bytes > device.shared_bytes) {
    return 0;
  }
  const auto by_memory = static_cast<int>((device.shared_bytes + kReserved) / (bytes + kReserved));
  const int by_registers = warps_of_multiprocessor(element_bytes) * 32 /
                           chase_layout::threads_for(sweeps, element_bytes);
  return std::min(by_memory, by_registers);
}

/// Cycles of a matrix's groups, sum over groups of the larger of what they wait for each other and
/// what one takes, over the blocks that take them in turn; groups as a continuum, since a band of
/// which x columns are done has (n - x) / kBand + 1 steps. A block alone waits where few of its
/// sweeps have room in what is left of the band.
double cycles_of_matrix(double n, int sweeps, int blocks, int sweeps_beside,
                        const HalfStep& half_step) {
  constexpr auto kSteps = static_cast<double>(kBand);
  const double own = std::max(half_step.latency, half_step.per_sweep * sweeps_beside);
  const double waiting =
      lag_of(sweeps) *
      (blocks == 1 ? half_step.latency : std::max(half_step.latency, half_step.per_sweep * sweeps));
  const double per_step = 2.0 * own / blocks;
  // Remaining columns below which a group is shorter than the lag.
  const double few = std::clamp(kSteps * (waiting / per_step - 1.0), 0.0, n);
  const double long_groups = (n * n - few * few) / (2.0 * kSteps) + (n - few);
  return (waiting * few + per_step * long_groups) / sweeps;
}

std::optional<ChasePlan> plan_of(std::int64_t n, std::int64_t batch, std::size_t element_bytes,
                                 const ChaseDevice& device, int sweeps, int blocks) {
  int ring_blocks = chase_layout::ring_blocks_for(sweeps);
  const int side_by_side = blocks_on_multiprocessor(sweeps, ring_blocks, element_bytes, device);
  if (side_by_side == 0) {
    return std::nullopt;
  }
  const std::int64_t room = std::int64_t{std::max(1, device.multiprocessors)} * side_by_side;
  if (blocks > 1 && (device.multiprocessors == 0 || batch * blocks > room)) {
    return std::nullopt;
  }
  const std::int64_t waves = ceil_divide(batch * blocks, room);
  const std::int64_t beside =
      waves > 1 ? side_by_side
                : ceil_divide(batch * blocks, std::int64_t{std::max(1, device.multiprocessors)});
  for (int slack = 0; slack < kMostSlack; ++slack) {
    if (blocks_on_multiprocessor(sweeps, ring_blocks + 1, element_bytes, device) < beside) {
      break;
    }
    ++ring_blocks;
  }
  return ChasePlan{
      .shape = {.sweeps = sweeps,
                .ring_blocks = ring_blocks,
                .shared_bytes = chase_layout::shared_bytes_for(sweeps, ring_blocks, element_bytes)},
      .blocks = blocks,
      .cycles = static_cast<double>(waves) *
                cycles_of_matrix(static_cast<double>(n), sweeps, blocks,
                                 sweeps * static_cast<int>(beside), half_step_of(element_bytes))};
}

}  // namespace

ChasePlan chase_plan(std::int64_t n, std::int64_t batch, std::size_t stored_bytes,
                     std::size_t element_bytes, const ChaseDevice& device) {
  std::optional<ChasePlan> best;
  const std::int64_t most_blocks =
      std::min<std::int64_t>(device.multiprocessors / std::max<std::int64_t>(1, batch),
                             chase_layout::steps_of_group(std::max<std::int64_t>(1, n), 0));
  for (int sweeps = chase_layout::max_sweeps(element_bytes); sweeps >= chase_layout::kMinSweeps;
       --sweeps) {
    if (best && stored_bytes != element_bytes) {
      break;  // each group of sweeps rounds every element once: their number is part of the result
    }
    for (int blocks = 1; blocks == 1 || blocks <= most_blocks; ++blocks) {
      const auto plan = plan_of(n, batch, element_bytes, device, sweeps, blocks);
      // A block more has to be worth its place.
      if (plan && (!best || plan->cycles < 0.99 * best->cycles)) {
        best = plan;
      }
    }
  }
  if (!best) {
    throw UsageError(
        "E-CUDA-SHARED",
        "bulge chasing needs " +
            std::to_string(chase_layout::shared_bytes_for(
                chase_layout::kMinSweeps, chase_layout::ring_blocks_for(chase_layout::kMinSweeps),
                element_bytes)) +
            " bytes of shared memory per block, the device has " +
            std::to_string(device.shared_bytes));
  }
  return *best;
}

ChasePlan chase_plan_of(std::int64_t n, std::int64_t batch, std::size_t element_bytes,
                        const ChaseDevice& device, int sweeps, int blocks) {
  const bool is_possible = sweeps >= chase_layout::kMinSweeps &&
                           sweeps <= chase_layout::max_sweeps(element_bytes) && blocks >= 1;
  const auto plan = is_possible ? plan_of(n, batch, element_bytes, device, sweeps, blocks)
                                : std::optional<ChasePlan>();
  if (!plan) {
    throw UsageError("E-CUDA-SHARED", "no chase with " + std::to_string(sweeps) + " sweeps and " +
                                          std::to_string(blocks) +
                                          " blocks per matrix fits on this device");
  }
  return *plan;
}

}  // namespace vindex::kernels
