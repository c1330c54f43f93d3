// Owns the shares of the budget that units do not get.
#include "job_plan.hpp"

#include "memory_budget.hpp"

#include <algorithm>
#include <numeric>

namespace vindex::engine {

std::uint64_t largest_row(const std::vector<RowWork>& works) {
  std::uint64_t most = 0;
  for (const RowWork& work : works) {
    most = std::max(most, work.result_bytes);
  }
  return most;
}

std::uint64_t left_of(std::uint64_t budget, std::uint64_t taken) {
  return budget - std::min(budget, taken);
}

std::uint64_t kept_staging(const WorkPlan& plan, std::uint64_t unit_budget) {
  constexpr std::uint64_t kMax = 256U << 20U;
  constexpr std::uint64_t kShare = 16;
  std::uint64_t largest = 0;
  for (const WorkUnit& unit : plan.units) {
    largest = std::max(largest, unit.memory_bytes);
  }
  const std::uint64_t most = plan.ring_bytes == 0 ? 0 : kMax;
  return std::min({most, unit_budget / kShare, unit_budget - std::min(unit_budget, largest)});
}

std::uint64_t batch_staging(const WorkPlan& plan, std::size_t devices) {
  constexpr std::uint64_t kRingsOfDevice = 2;
  std::uint64_t largest = 0;
  for (const WorkUnit& unit : plan.units) {
    largest = std::max(largest, unit.ring ? unit.staging_bytes : 0);
  }
  return kRingsOfDevice * devices * largest;
}

std::int32_t WorkerLayout::count() const { return std::accumulate(calls.begin(), calls.end(), 0); }

WorkPlan plan_job(const std::vector<RowWork>& works, std::int64_t row_count,
                  const WorkerLayout& layout, std::uint64_t ram_budget,
                  std::uint64_t reserved_bytes) {
  const std::uint64_t largest = largest_row(works);
  const std::uint64_t own = left_of(ram_budget, reserved_bytes);
  const std::uint64_t beside = result_queue_budget(own, row_count, largest).bytes;
  WorkPlan plan = plan_rows(works, {.ram_budget = left_of(own, beside),
                                    .workers = layout.count(),
                                    .batch = layout.batch,
                                    .held = layout.held,
                                    .in_order = layout.in_order});
  plan.least_ram_bytes = budget_for(plan.least_ram_bytes, row_count, largest);
  plan.ram_bytes = budget_for(plan.ram_bytes, row_count, largest);
  require_budget(ram_budget, plan.largest, reserved_bytes + plan.least_ram_bytes);
  return plan;
}

}  // namespace vindex::engine
