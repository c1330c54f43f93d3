// Owns the plan of a job as a run needs it: units within what the budget leaves beside finished
// rows on their way to the file.
#pragma once

#include "work_plan.hpp"

#include <cstdint>
#include <vector>

namespace vindex::engine {

/// Who works: per device (or processor), how many calls of Job::process at once.
struct WorkerLayout {
  std::vector<std::int32_t> calls = {1};
  std::int64_t batch = 1;  ///< PlanLimits::batch
  std::int64_t held = 1;   ///< PlanLimits::held
  bool in_order = false;   ///< PlanLimits::in_order
  std::int32_t count() const;
};

/// The plan of `works`, which are some or all of `row_count` rows of a results file, 0 where there
/// is none. Everything in it counts what finished rows take on their way to the file too. Errors:
/// ConfigurationError E-BUDGET (78) where the budget is too small. `reserved_bytes`: of it,
/// what is not the run's.
WorkPlan plan_job(const std::vector<RowWork>& works, std::int64_t row_count,
                  const WorkerLayout& layout, std::uint64_t ram_budget,
                  std::uint64_t reserved_bytes = 0);

/// Bytes of the largest finished row.
std::uint64_t largest_row(const std::vector<RowWork>& works);

/// What is left of `budget` where `taken` is gone; 0 where that is more.
std::uint64_t left_of(std::uint64_t budget, std::uint64_t taken);

/// Of `unit_budget`, what is set aside for staging memory between units: nothing where the largest
/// unit needs it all, or where no unit has any.
std::uint64_t kept_staging(const WorkPlan& plan, std::uint64_t unit_budget);

/// Staging memory that is out at once before a further ring is begun: of a device's bus one batch
/// has the turn while the next one waits for it with a full ring, whatever the number of calls. 0
/// where no unit has a ring.
std::uint64_t batch_staging(const WorkPlan& plan, std::size_t devices);

}  // namespace vindex::engine
