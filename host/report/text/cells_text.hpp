// Owns what `vindex show` and the ends of `vindex experts`, `cka`, `activations` and `routing`
// report from their files, and `vindex show --top` from all of them: rows of numbers beside what
// noise gives, as text and as JSON.
#pragma once

#include "results/runs/shown_cells.hpp"

#include <cstddef>
#include <string>

namespace vindex::report {

/// The rows that `show --top` asks for.
struct TopRows {
  std::size_t count = 0;  ///< 0: all rows, in the file's order
  std::string by = {};    ///< a column of the file, NAME_ratio or NAME_difference to NAME_null
  bool is_ascending = false;
};

/// Leaves the measured rows of `shown` that `top` names, largest first; `by` becomes the column
/// that was taken. What has no number there is left out. Errors: UsageError E-COLUMN.
void keep_top(results::ShownCells& shown, TopRows& top);

/// What the kind of file says is to be shown.
results::Summary summary_of(const results::ShownCells& shown);

/// "OUT.h5: 12 of 12 layers measured (complete), MODEL".
std::string cells_headline(const results::ShownCells& shown);
/// The rows as a table of at most `width` columns, values beside what noise gives. Of `top` (what
/// keep_top() made of it) the rows alone, with the names of their tensors.
std::string cells_text(const results::ShownCells& shown, std::size_t width,
                       const TopRows& top = {});
/// Everything but arrays of two dimensions as one JSON document, schema
/// "vindex-<kind>-summary/1", null for NaN.
std::string cells_json(const results::ShownCells& shown, const TopRows& top = {});

}  // namespace vindex::report
