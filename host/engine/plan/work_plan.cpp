// Owns forming units: which rows fit one call together, held whole or streamed, in what order.
#include "work_plan.hpp"

#include "input/bulk/placement.hpp"
#include "input/bulk/read_extent.hpp"
#include "statistics/judgement/first_step.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <algorithm>
#include <numeric>

namespace vindex::engine {

namespace {

/// Of a worker's work, one unit should be no more than the fourth part, unless so few rows are left
/// that a device would idle between them.
constexpr double kUnitsPerWorker = 4.0;
constexpr double kMinBatch = 16.0;
/// The same where a batch streams through a ring, of which there are several calls on one device: a
/// call of fewer leaves some of its multiprocessors idle, and beside others it need not be larger
/// (many_cores_bench --pipeline).
constexpr double kMinStreamedBatch = 64.0;

std::uint64_t one_input(const RowWork& work) { return work.input_working + work.input_lasting; }

/// Staging memory of one row alone.
std::uint64_t staged_bytes_of(const RowWork& work) {
  return (work.packed > 0 ? work.packed : work.matrices.size() * work.slot) +
         input::kDirectAlignment;
}
/// Of one row alone, beside its workspace: staging memory, inputs, the finished row.
std::uint64_t beside_workspace(const RowWork& work) {
  return staged_bytes_of(work) + one_input(work) + work.result_bytes;
}
std::uint64_t whole_bytes(const RowWork& work) { return beside_workspace(work) + work.workspace; }
std::uint64_t tight_bytes(const RowWork& work) {
  return beside_workspace(work) + work.min_workspace;
}
std::uint64_t streamed_bytes(const RowWork& work) { return work.streamed + work.result_bytes; }

std::uint64_t piece_bytes(const RowWork& work) {
  return work.pieces + work.workspace + work.result_bytes;
}

std::uint64_t min_bytes(const RowWork& work) {
  return work.reading == Reading::kPieces ? piece_bytes(work)
                                          : std::min(tight_bytes(work), streamed_bytes(work));
}

bool is_small(const model::CompanionPart& companion) {
  return companion.part.bytes <= kSharedCompanionBytes;
}

/// Sets slots and memory of a unit that holds `unit.matrices`, all of rows like `work`.
void size_unit(WorkUnit& unit, const RowWork& work, const PlanLimits& limits, std::uint64_t share) {
  const std::uint64_t count = unit.matrices.size();
  const bool batch = unit.rows.size() > 1;
  unit.slot_bytes = batch ? work.slot - work.shared : work.slot;
  unit.shared_bytes = batch ? count * work.shared : 0;
  unit.slots = count;
  unit.packed = work.packed > 0;
  if (unit.packed) {
    unit.staging_bytes = staged_bytes_of(work);
    unit.memory_bytes = whole_bytes(work);
    return;
  }
  if (limits.held > 0) {
    unit.ring = batch && static_cast<std::uint64_t>(limits.held) < count;
    const std::uint64_t ring = std::min(kRingBytes, share / 2);
    unit.slots = std::min(count, std::max(static_cast<std::uint64_t>(limits.held),
                                          ring / std::max<std::uint64_t>(unit.slot_bytes, 1)));
  }
  unit.staging_bytes = unit.slots * unit.slot_bytes + unit.shared_bytes + input::kDirectAlignment;
  unit.memory_bytes = unit.staging_bytes + work.workspace + unit.rows.size() * work.result_bytes;
  const std::uint64_t held =
      limits.held > 0 ? std::min(count, static_cast<std::uint64_t>(limits.held)) : count;
  unit.memory_bytes += held * work.input_working + count * work.input_lasting;
  if (unit.slots < count) {
    // A matrix that is asked for again after its release.
    unit.memory_bytes += work.slot + work.input_working;
  }
}

/// Appends the row to what the unit works on; its memory is for the caller.
void add_row(WorkUnit& unit, const RowWork& work) {
  unit.rows.push_back(work.row);
  unit.matrices.insert(unit.matrices.end(), work.matrices.begin(), work.matrices.end());
  unit.encoded_bytes += work.read_bytes;
  unit.cost += work.cost;
}

/// A unit of `work` alone, held whole where the budget allows.
WorkUnit unit_alone(const RowWork& work, const PlanLimits& limits, std::uint64_t share) {
  WorkUnit unit;
  add_row(unit, work);
  if (work.reading == Reading::kPieces) {
    unit.memory_bytes = min_bytes(work);
    unit.staging_bytes = work.pieces;
    unit.streamed = true;
    return unit;
  }
  if (work.reading == Reading::kPassing && piece_bytes(work) <= share) {
    unit.memory_bytes = piece_bytes(work);
    unit.staging_bytes = work.pieces;
    unit.streamed = unit.passing = true;
    return unit;
  }
  size_unit(unit, work, limits, share);
  if (unit.memory_bytes <= limits.ram_budget) {
    return unit;
  }
  if (tight_bytes(work) <= limits.ram_budget) {
    unit.memory_bytes = std::max(tight_bytes(work), std::min(share, whole_bytes(work)));
    unit.workspace_limit =
        unit.memory_bytes - unit.staging_bytes - one_input(work) - work.result_bytes;
    return unit;
  }
  unit.streamed = true;
  unit.ring = false;
  unit.slots = unit.slot_bytes = unit.shared_bytes = unit.staging_bytes = 0;
  unit.packed = false;
  unit.memory_bytes = streamed_bytes(work);
  unit.workspace_limit = work.streamed_workspace;
  return unit;
}

/// Adds the row to `last`, whose rows are of its kind, where there is room.
bool join(WorkUnit& last, const RowWork& work, const PlanLimits& limits, std::uint64_t share,
          double fair_cost) {
  const bool streams = limits.held > 0 && work.reading == Reading::kWhole;
  const double least = streams ? kMinStreamedBatch : kMinBatch;
  if (last.cost + work.cost > std::max(fair_cost, least * work.cost)) {
    return false;
  }
  if (work.reading == Reading::kPieces) {
    add_row(last, work);
    last.memory_bytes = std::max(last.memory_bytes, min_bytes(work));
    last.staging_bytes = std::max(last.staging_bytes, work.pieces);
    return true;
  }
  if (static_cast<std::int64_t>(last.rows.size()) >= limits.batch || last.streamed ||
      last.workspace_limit != 0) {
    return false;
  }
  WorkUnit larger = last;
  add_row(larger, work);
  size_unit(larger, work, limits, share);
  if (larger.memory_bytes > share) {
    return false;
  }
  last = std::move(larger);
  return true;
}

/// What `rows` come to altogether.
WorkPlan totals_of(const std::vector<RowWork>& rows, const PlanLimits& limits) {
  WorkPlan plan;
  for (const RowWork& work : rows) {
    ++plan.matrices;
    plan.read_bytes += work.read_bytes;
    plan.cost += work.cost;
    plan.output_bytes += work.output_bytes;
    if (const std::uint64_t least = min_bytes(work); least > plan.least_ram_bytes) {
      plan.least_ram_bytes = least;
      plan.largest = work.name;
    }
    if (work.reading != Reading::kWhole) {
      plan.ram_bytes = std::max(plan.ram_bytes, piece_bytes(work));
      continue;
    }
    // One row, or as much of a batch as its ring holds.
    const std::uint64_t batch =
        work.kind == 0 ? 0 : static_cast<std::uint64_t>(limits.batch - 1) * work.slot;
    plan.ram_bytes =
        std::max(plan.ram_bytes,
                 whole_bytes(work) + (limits.held > 0 ? std::min(kRingBytes, batch) : batch));
  }
  plan.output_bytes += 1U << 20U;
  plan.ram_bytes *= static_cast<std::uint64_t>(limits.workers) + 1;
  return plan;
}

/// Staging memory of the units that may be in work or read ahead at once.
std::uint64_t ring_bytes_of(const std::vector<WorkUnit>& units, const PlanLimits& limits) {
  std::vector<std::uint64_t> staging;
  for (const WorkUnit& unit : units) {
    staging.push_back(unit.staging_bytes);
  }
  std::sort(staging.rbegin(), staging.rend());
  staging.resize(
      std::min(staging.size(), static_cast<std::size_t>(2 * limits.workers + kMoreAhead)));
  return std::min(limits.ram_budget,
                  std::accumulate(staging.begin(), staging.end(), std::uint64_t{0}));
}

}  // namespace

bool shares_memory(const WorkUnit& unit, const model::CompanionPart& companion) {
  return unit.shared_bytes > 0 && is_small(companion);
}

StagedBytes staged_bytes(const model::MatrixRecord& matrix) {
  StagedBytes staged{.slot = input::placed_bytes_at_most(matrix.codes.bytes, kMergedGap)};
  for (const model::CompanionPart& companion : matrix.companions) {
    const std::uint64_t bytes = input::placed_bytes_at_most(companion.part.bytes, kMergedGap);
    staged.slot += bytes;
    staged.shared += is_small(companion) ? bytes : 0;
  }
  return staged;
}

std::uint64_t stored_bytes(const model::MatrixRecord& matrix) {
  std::uint64_t bytes = matrix.codes.bytes;
  for (const model::CompanionPart& companion : matrix.companions) {
    bytes += companion.part.bytes;
  }
  return bytes;
}

WorkPlan plan_rows(const std::vector<RowWork>& rows, const PlanLimits& limits) {
  WorkPlan plan = totals_of(rows, limits);
  if (plan.least_ram_bytes > limits.ram_budget) {
    return plan;
  }
  // A hand-over may use its fair share of the budget; one that needs more runs alone, or streamed.
  const std::uint64_t share = limits.ram_budget / (static_cast<std::uint64_t>(limits.workers) + 1);
  // Every worker shall have several units, or the last ones to finish decide the time.
  const double fair_cost = plan.cost / (kUnitsPerWorker * static_cast<double>(limits.workers));
  std::uint64_t last_kind = 0;
  for (const RowWork& work : rows) {
    const bool is_alike = work.kind != 0 && work.kind == last_kind;
    last_kind = work.kind;
    if (!is_alike || !join(plan.units.back(), work, limits, share, fair_cost)) {
      plan.units.push_back(unit_alone(work, limits, share));
    }
  }
  plan.ring_bytes = ring_bytes_of(plan.units, limits);

  if (limits.in_order) {
    return plan;
  }
  // A row that costs more than a worker's fair tail would otherwise run alone at the end.
  const double outlier = plan.cost / (8.0 * static_cast<double>(limits.workers));
  std::stable_sort(plan.units.begin(), plan.units.end(), [&](const WorkUnit& a, const WorkUnit& b) {
    const double cost_a = a.cost > outlier ? a.cost : 0.0;
    const double cost_b = b.cost > outlier ? b.cost : 0.0;
    return cost_a > cost_b;
  });
  return plan;
}

double measuring_cost(std::int64_t rows, std::int64_t cols, const MeasureOptions& options) {
  const auto p = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  const double gram = n * p * (p + 1);
  const double reduction = 4.0 / 3.0 * p * p * p;
  // float64 halves the rate; the few values that a Gram of a square matrix loses cost a fifth more.
  const bool is_wide = options.mode == SpectrumMode::kStrict ||
                       statistics::begins_in_float64(rows, cols, options, 1);
  const double tail_factor = options.mode != SpectrumMode::kFast && n < 1.1 * p ? 1.2 : 1.0;
  const double strict_factor = (is_wide ? 2.2 : 1.0) * tail_factor;
  const double reduction_weight =
      3.0;  // half of it is memory-bound: measured about a third of the Gram's rate
  // Draws take the route of the mode, whatever the shape.
  const double draw_factor = options.mode == SpectrumMode::kStrict ? strict_factor : 1.0;
  return (strict_factor + options.sign_flip_draws * draw_factor) *
         (gram + reduction_weight * reduction);
}

}  // namespace vindex::engine
