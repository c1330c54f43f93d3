// Owns choosing rows by a column, with advice where it is unknown.
#include "top_rows.hpp"

#include "core/text/nearest_name.hpp"
#include "results/view/first_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

namespace vindex::report {

namespace {

/// Those that are one number of a row.
std::vector<PresentCell> single_cells(const results::ResultsView& view) {
  std::vector<PresentCell> cells = present_cells(view);
  std::erase_if(cells, [](const PresentCell& cell) { return cell.count != 1; });
  return cells;
}

bool is_null_of(std::string_view name, std::string_view of) {
  for (const std::string_view suffix : {"_null", "_noise", "_null_sd", "_mean_null_sd", "_se"}) {
    if (name.size() == of.size() + suffix.size() && name.starts_with(of) &&
        name.ends_with(suffix)) {
      return true;
    }
  }
  return false;
}

/// Of "var_at_64_b" in a comparison the null is var_at_64_null.
std::string stem_of(const std::string& name) {
  for (const std::string_view suffix : {"_a", "_b", "_difference", "_mean"}) {
    if (name.ends_with(suffix)) {
      return name.substr(0, name.size() - suffix.size());
    }
  }
  return name;
}

using RowNumber = std::function<double(const results::ViewRow&)>;

RowNumber number_named(const results::ResultsView& view, const std::string& name) {
  const std::vector<PresentCell> cells = single_cells(view);
  const auto place_of = [&](const std::string& wanted) {
    return std::find_if(cells.begin(), cells.end(),
                        [&](const PresentCell& cell) { return cell.name == wanted; });
  };
  if (const auto cell = place_of(name); cell != cells.end()) {
    return [place = cell->place](const results::ViewRow& row) { return row.cells[place]; };
  }
  for (const std::string_view suffix : {"_ratio", "_difference"}) {
    if (!name.ends_with(suffix)) {
      continue;
    }
    const std::string base = name.substr(0, name.size() - suffix.size());
    const auto value = place_of(base);
    const auto null = place_of(base + "_null");
    if (value != cells.end() && null != cells.end()) {
      return [value = value->place, null = null->place,
              is_ratio = suffix == "_ratio"](const results::ViewRow& row) {
        return is_ratio ? row.cells[value] / row.cells[null] : row.cells[value] - row.cells[null];
      };
    }
  }
  std::vector<std::string> names;
  for (const PresentCell& cell : cells) {
    names.push_back(cell.name);
  }
  const std::string guess = did_you_mean(name, names);
  throw UsageError(
      "E-COLUMN",
      fmt::format("'{}' is not a column of this file; {}{}there are {}, with _ratio or _difference "
                  "where they have a _null",
                  printable(name), guess, guess.empty() ? "" : " ", fmt::join(names, " ")));
}

}  // namespace

std::vector<PresentCell> cells_beside(const results::ResultsView& view, const std::string& name) {
  const std::vector<PresentCell> cells = single_cells(view);
  std::vector<PresentCell> out;
  for (const PresentCell& cell : cells) {
    if (cell.name == name) {
      out.insert(out.begin(), cell);
    } else if (is_null_of(cell.name, name) ||
               (!name.ends_with("_null") && is_null_of(cell.name, stem_of(name)))) {
      out.push_back(cell);
    }
  }
  return !out.empty() && out.front().name == name ? out : std::vector<PresentCell>();
}

void keep_top(results::ResultsView& view, TopRows& top) {
  if (top.by.empty()) {
    top.by = summary_of(view).top_by;
  }
  std::erase_if(view.rows, [](const results::ViewRow& row) { return !row.is_measured(); });
  results::keep_first(view.rows, top.count, top.is_ascending, number_named(view, top.by));
}

}  // namespace vindex::report
