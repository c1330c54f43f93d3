// Owns the tables and headlines that `show` prints of rows of cells, by what their kind says is to
// be shown.
#include "cells_text.hpp"

#include "cell_names.hpp"

#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <utility>

namespace vindex::report {

namespace {

bool is_used(const results::ShownCells& shown, const results::SummaryColumn& column) {
  return column.value == nullptr ||
         std::any_of(shown.rows.begin(), shown.rows.end(),
                     [&](const results::ShownRow& row) { return !std::isnan(column.value(row)); });
}

/// The column that rows are sorted by in front, with its null, unless it is among `columns`.
std::vector<results::SummaryColumn> with_sort_column(const results::ShownCells& shown,
                                                     std::vector<results::SummaryColumn> columns,
                                                     const TopRows& top) {
  const std::vector<NamedCell> sorted = cells_beside(shown, top.by);
  if (sorted.empty()) {
    return columns;
  }
  const auto is_asked_for = [&](const results::SummaryColumn& column) {
    return column.cell == sorted.front().place;
  };
  std::vector<results::SummaryColumn> out;
  if (std::none_of(columns.begin(), columns.end(), is_asked_for)) {
    for (const NamedCell& cell : sorted) {
      results::SummaryColumn& column =
          out.emplace_back(&cell == sorted.data() ? results::number_column(cell.name, cell.place)
                                                  : results::null_column("noise", cell.place));
      column.is_count = cell.is_count;
    }
  }
  // What was asked for stays; of the rest the last gives way first.
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].dropped_as = columns[i].value == nullptr || is_asked_for(columns[i])
                                ? 0
                                : static_cast<std::uint8_t>(std::max<std::size_t>(
                                      columns[i].dropped_as, columns.size() - i));
  }
  out.insert(out.end(), columns.begin(), columns.end());
  return out;
}

std::string rows_table(const results::ShownCells& shown,
                       const std::vector<results::SummaryColumn>& columns, bool has_names,
                       std::size_t width) {
  std::vector<const results::SummaryColumn*> used;
  for (const results::SummaryColumn& column : columns) {
    if (is_used(shown, column)) {
      used.push_back(&column);
    }
  }
  std::vector<std::vector<std::string>> cells = {{"layer", "role"}};
  std::vector<TextColumn> layout = {{.right = true}, {.min_width = 8}};
  std::uint8_t turn = 0;
  for (const results::SummaryColumn* column : used) {
    // A null goes when its statistic goes.
    turn = column->is_null ? turn : column->dropped_as;
    cells.front().push_back(column->heading);
    layout.push_back(
        {.right = column->value != nullptr, .is_close = column->is_null, .dropped_as = turn});
  }
  ShortNames names;
  if (has_names) {
    for (const results::ShownRow& row : shown.rows) {
      names.names.push_back(row.slice < 0 ? row.tensor
                                          : fmt::format("{}[{}]", row.tensor, row.slice));
    }
    if (width != std::numeric_limits<std::size_t>::max()) {
      names = short_names(names.names);
    }
    cells.front().push_back("matrix");
    layout.push_back({});
  }
  for (std::size_t i = 0; i < shown.rows.size(); ++i) {
    const results::ShownRow& row = shown.rows[i];
    std::vector<std::string> line = {row.layer < 0 ? "-" : std::to_string(row.layer), row.role};
    for (const results::SummaryColumn* column : used) {
      line.push_back(column->text != nullptr
                         ? column->text(row)
                         : results::number_text(column->value(row), column->is_count));
    }
    if (has_names) {
      line.push_back(names.names[i]);
    }
    cells.push_back(std::move(line));
  }
  return table_text(cells, layout, width) + shared_text(names, width);
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

std::string summary_table_text(const results::SummaryTable& table, std::size_t width) {
  const std::string title =
      table.title.empty() ? std::string() : wrapped_text(table.title, width, 2) + "\n";
  const std::string text = table_text(table.cells, table.layout, width);
  if (table.otherwise.empty()) {
    return title + text;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (display_width(line) > width) {
      return wrapped_text(table.otherwise, width, 2) + "\n";
    }
  }
  return title + text;
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

std::string cells_text(const results::ShownCells& shown, std::size_t width, const TopRows& top) {
  const results::Summary summary = summary_of(shown);
  if (top.count > 0) {
    return rows_table(shown, with_sort_column(shown, summary.columns, top), summary.has_names,
                      width) +
           wrapped_text(
               fmt::format(
                   "({} of {} {}, by {}, {} first){}", shown.rows.size(), shown.rows_measured,
                   results::row_noun(shown.schema), top.by,
                   top.is_ascending ? "smallest" : "largest",
                   summary.remark.empty() || !summary.tables.empty() ? "" : "; " + summary.remark),
               width, 2) +
           "\n";
  }
  std::string text;
  if (!summary.has_own_tables) {
    text = rows_table(shown, summary.columns, summary.has_names, width);
  }
  for (const results::SummaryTable& table : summary.tables) {
    text += (text.empty() ? "" : "\n") + summary_table_text(table, width);
  }
  if (!summary.remark.empty()) {
    text += wrapped_text(summary.remark, width, 2) + "\n";
  }
  return text + unmeasured_text(shown, width);
}

}  // namespace vindex::report
