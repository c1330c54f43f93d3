// Owns the tables and headlines that `show` prints of rows of cells, by what their kind says is to
// be shown.
#include "cells_text.hpp"

#include "core/text_table.hpp"
#include "results/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace vindex::report {

namespace {

std::string rows_table(const results::ShownCells& shown,
                       const std::vector<results::SummaryColumn>& columns, std::size_t width) {
  std::vector<const results::SummaryColumn*> used;
  for (const results::SummaryColumn& column : columns) {
    if (std::any_of(shown.rows.begin(), shown.rows.end(),
                    [&](const results::ShownRow& row) { return !std::isnan(column.value(row)); })) {
      used.push_back(&column);
    }
  }
  std::vector<std::vector<std::string>> cells = {{"layer", "role"}};
  std::vector<TextColumn> layout = {{.right = true}, {.min_width = 8}};
  for (const results::SummaryColumn* column : used) {
    cells.front().push_back(column->heading);
    layout.push_back(
        {.right = true, .is_close = column->is_null, .dropped_as = column->dropped_as});
  }
  for (const results::ShownRow& row : shown.rows) {
    std::vector<std::string> line = {row.layer < 0 ? "-" : std::to_string(row.layer), row.role};
    for (const results::SummaryColumn* column : used) {
      line.push_back(results::number_text(column->value(row), column->is_count));
    }
    cells.push_back(std::move(line));
  }
  return table_text(cells, layout, width);
}

/// Of a kind that says nothing: every column that is one number.
results::Summary plain_summary(const results::ShownCells& shown) {
  results::Summary summary;
  const results::CellTable& table = *results::schema_of(shown.schema).cells;
  std::size_t place = 0;
  for (const results::CellColumn& cell : table.cells) {
    if (results::cell_count(cell, 0) == 1) {
      summary.columns.push_back(cell.integer
                                    ? results::count_column(std::string(cell.name), place)
                                    : results::number_column(std::string(cell.name), place));
    }
    place += results::cell_count(cell, 0);
  }
  return summary;
}

std::string unmeasured_text(const results::ShownCells& shown, std::size_t width) {
  std::string text;
  for (const results::ShownRow& row : shown.rows) {
    if (row.status != "measured" && row.status != "skipped") {
      text += wrapped_text(fmt::format("{} {}: {}", row.status, row.tensor, row.reason), width, 2) +
              "\n";
    }
  }
  return text;
}

}  // namespace

std::string cells_headline(const results::ShownCells& shown) {
  return fmt::format("{}: {} of {} {} {} ({}), {}{}\n", printable(shown.path), shown.rows_measured,
                     shown.rows_total, results::row_noun(shown.schema),
                     results::outcome_word(shown.schema), shown.state, shown.model,
                     shown.other_model.empty() ? "" : " beside " + shown.other_model);
}

results::Summary summary_of(const results::ShownCells& shown) {
  const auto summarise = results::schema_of(shown.schema).summarise;
  return summarise == nullptr ? plain_summary(shown) : summarise(shown);
}

std::string cells_text(const results::ShownCells& shown, std::size_t width) {
  const results::Summary summary = summary_of(shown);
  std::string text = rows_table(shown, summary.columns, width);
  for (const results::SummaryTable& table : summary.tables) {
    text += "\n" + table_text(table.cells, table.layout, width);
  }
  if (!summary.remark.empty()) {
    text += wrapped_text(summary.remark, width, 2) + "\n";
  }
  return text + unmeasured_text(shown, width);
}

}  // namespace vindex::report
