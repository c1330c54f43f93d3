// Owns finding the columns that a file has, and the summary of a kind that declares none.
#include "cell_columns.hpp"

#include "results/schema/schema.hpp"

namespace vindex::report {

std::vector<PresentCell> present_cells(const results::ResultsView& view) {
  std::vector<PresentCell> cells;
  std::size_t place = 0;
  for (const results::CellColumn& cell : results::schema_of(view.schema).cells->cells) {
    const std::size_t count = results::cell_count(cell, view.scale_length);
    if (count > 0 && results::is_present(cell, view.optional_columns)) {
      cells.push_back({.name = std::string(cell.name),
                       .place = place,
                       .count = count,
                       .is_count = cell.integer,
                       .is_list = !cell.scale.empty()});
    }
    place += count;
  }
  return cells;
}

results::Summary summary_of(const results::ResultsView& view) {
  if (const auto summarise = results::schema_of(view.schema).summarise; summarise != nullptr) {
    return summarise(view);
  }
  results::Summary summary;
  for (const PresentCell& cell : present_cells(view)) {
    if (cell.count == 1) {
      summary.columns.push_back(results::number_column(cell.name, cell.place));
      summary.columns.back().is_count = cell.is_count;
    }
  }
  return summary;
}

}  // namespace vindex::report
