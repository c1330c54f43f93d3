// Owns which rows `show --top` shows, and what the names of columns on a command line mean in a
// file whose rows are cells.
#pragma once

#include "cell_columns.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::report {

/// The rows that `show --top` asks for.
struct TopRows {
  std::size_t count = 0;  ///< 0: all rows, in the file's order
  std::string by = {};    ///< a column of the file, NAME_ratio or NAME_difference to NAME_null
  bool is_ascending = false;
};

/// Leaves the measured rows of `view` that `top` names, largest first; `by` becomes the column that
/// was taken. What has no number there is left out. Errors: UsageError E-COLUMN.
void keep_top(results::ResultsView& view, TopRows& top);

/// Column `name`, and behind it what noise gives for it, or its deviation, as far as the file has
/// them: columns of one number. Empty where the file has no such column.
std::vector<PresentCell> cells_beside(const results::ResultsView& view, const std::string& name);

}  // namespace vindex::report
