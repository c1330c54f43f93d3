// Owns the tables and headlines that `show` prints of rows of cells.
#include "cells_text.hpp"

#include "core/text/short_names.hpp"
#include "core/text/text_table.hpp"
#include "results/schema/schema.hpp"
#include "results/view/table_view.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <sstream>
#include <utility>

namespace vindex::report {

namespace {

bool is_used(const results::ResultsView& view, const results::SummaryColumn& column) {
  return column.value == nullptr ||
         std::any_of(view.rows.begin(), view.rows.end(),
                     [&](const results::ViewRow& row) { return !std::isnan(column.value(row)); });
}

/// The column that rows are sorted by in front, with its null, unless it is among `columns`.
std::vector<results::SummaryColumn> with_sort_column(const results::ResultsView& view,
                                                     std::vector<results::SummaryColumn> columns,
                                                     const TopRows& top) {
  const std::vector<PresentCell> sorted = cells_beside(view, top.by);
  if (sorted.empty()) {
    return columns;
  }
  const auto is_asked_for = [&](const results::SummaryColumn& column) {
    return column.cell == sorted.front().place;
  };
  std::vector<results::SummaryColumn> out;
  if (std::none_of(columns.begin(), columns.end(), is_asked_for)) {
    for (const PresentCell& cell : sorted) {
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

/// A row and its name, as it is printed.
struct RowLine {
  const results::ViewRow* row = nullptr;
  std::string name;
};

std::string rows_table(const results::ResultsView& view,
                       const std::vector<results::SummaryColumn>& columns, bool has_names,
                       std::size_t width) {
  ShortNames names;
  names.names.resize(view.rows.size());
  if (has_names) {
    std::transform(view.rows.begin(), view.rows.end(), names.names.begin(), [](const auto& row) {
      return row.slice < 0 ? row.tensor : fmt::format("{}[{}]", row.tensor, row.slice);
    });
    if (width != std::numeric_limits<std::size_t>::max()) {
      names = short_names(names.names);
    }
  }
  std::vector<RowLine> rows;
  for (std::size_t i = 0; i < view.rows.size(); ++i) {
    rows.push_back({&view.rows[i], names.names[i]});
  }
  results::TableView<RowLine> table;
  table
      .printed("layer", {.right = true},
               [](const RowLine& named) {
                 return named.row->layer < 0 ? "-" : std::to_string(named.row->layer);
               })
      .printed("role", {.min_width = 8}, [](const RowLine& named) { return named.row->role; });
  std::uint8_t turn = 0;
  for (const results::SummaryColumn& column : columns) {
    if (!is_used(view, column)) {
      continue;
    }
    // A null goes when its statistic goes.
    turn = column.is_null ? turn : column.dropped_as;
    table.printed(
        column.heading,
        {.right = column.value != nullptr, .is_close = column.is_null, .dropped_as = turn},
        [&column](const RowLine& named) {
          return column.text != nullptr
                     ? column.text(*named.row)
                     : results::number_text(column.value(*named.row), column.is_count);
        });
  }
  if (has_names) {
    table.printed("matrix", {}, [](const RowLine& named) { return named.name; });
  }
  return table.text(rows, width) + shared_text(names, width);
}

std::string unmeasured_text(const results::ResultsView& view, std::size_t width) {
  std::string text;
  for (const results::ViewRow& row : view.rows) {
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

std::string cells_headline(const results::ViewHead& view) {
  return fmt::format("{}: {} of {} {} {} ({}), {}{}\n", printable(view.path), view.rows_measured,
                     view.rows_total, results::row_noun(view.schema),
                     results::outcome_word(view.schema), view.state, view.model,
                     view.other_model.empty() ? "" : " beside " + view.other_model);
}

std::string cells_text(const results::ResultsView& view, std::size_t width, const TopRows& top) {
  const results::Summary summary = summary_of(view);
  if (top.count > 0) {
    return rows_table(view, with_sort_column(view, summary.columns, top), summary.has_names,
                      width) +
           wrapped_text(
               fmt::format(
                   "({} of {} {}, by {}, {} first){}", view.rows.size(), view.rows_measured,
                   results::row_noun(view.schema), top.by,
                   top.is_ascending ? "smallest" : "largest",
                   summary.remark.empty() || !summary.tables.empty() ? "" : "; " + summary.remark),
               width, 2) +
           "\n";
  }
  std::string text;
  if (!summary.has_own_tables) {
    text = rows_table(view, summary.columns, summary.has_names, width);
  }
  for (const results::SummaryTable& table : summary.tables) {
    text += (text.empty() ? "" : "\n") + summary_table_text(table, width);
  }
  if (!summary.remark.empty()) {
    text += wrapped_text(summary.remark, width, 2) + "\n";
  }
  return text + unmeasured_text(view, width);
}

}  // namespace vindex::report
