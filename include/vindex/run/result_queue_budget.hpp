// Owns the memory between a finished row and the results file: two queues, rows that wait for the
// next part, the part's image, and the table of all rows. It is part of --ram-budget, and small
// where that is.
#pragma once

#include <cstdint>

namespace vindex::run {

struct ResultQueueBudget {
  std::uint64_t queue_bytes = 0;    ///< what each of two queues may hold, or one row
  std::uint64_t pending_bytes = 0;  ///< what may wait for the next part, or one row
  std::uint64_t bytes = 0;          ///< all of it together, the rows themselves included, at most
};

/// Of a budget of `ram_budget` bytes, for a results file of `row_count` rows of which the largest
/// holds `largest_row` bytes of spectra and vectors.
ResultQueueBudget result_queue_budget(std::uint64_t ram_budget, std::int64_t row_count,
                                      std::uint64_t largest_row);

/// The smallest budget that leaves `units` bytes beside its result_queue_budget().
std::uint64_t budget_for(std::uint64_t units, std::int64_t row_count, std::uint64_t largest_row);

}  // namespace vindex::run
