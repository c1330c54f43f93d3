// Owns choosing rows by a column, with advice where it is unknown.
#include "cell_names.hpp"

#include "core/text/nearest_name.hpp"
#include "results/schema/schema.hpp"
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

std::vector<NamedCell> named_cells(const results::ShownCells& shown) {
  std::vector<NamedCell> cells;
  const results::CellTable& table = *results::schema_of(shown.schema).cells;
  std::size_t place = 0;
  for (const results::CellColumn& cell : table.cells) {
    const std::size_t count = results::cell_count(cell, shown.scale_length);
    if (count == 1 && results::is_present(cell, shown.optional_columns)) {
      cells.push_back({std::string(cell.name), place, cell.integer});
    }
    place += count;
  }
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

using RowNumber = std::function<double(const results::ShownRow&)>;

RowNumber number_named(const results::ShownCells& shown, const std::string& name) {
  const std::vector<NamedCell> cells = named_cells(shown);
  const auto place_of = [&](const std::string& wanted) {
    return std::find_if(cells.begin(), cells.end(),
                        [&](const NamedCell& cell) { return cell.name == wanted; });
  };
  if (const auto cell = place_of(name); cell != cells.end()) {
    return [place = cell->place](const results::ShownRow& row) { return row.cells[place]; };
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
              is_ratio = suffix == "_ratio"](const results::ShownRow& row) {
        return is_ratio ? row.cells[value] / row.cells[null] : row.cells[value] - row.cells[null];
      };
    }
  }
  std::vector<std::string> names;
  for (const NamedCell& cell : cells) {
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

std::vector<NamedCell> cells_beside(const results::ShownCells& shown, const std::string& name) {
  const std::vector<NamedCell> cells = named_cells(shown);
  std::vector<NamedCell> out;
  for (const NamedCell& cell : cells) {
    if (cell.name == name) {
      out.insert(out.begin(), cell);
    } else if (is_null_of(cell.name, name) ||
               (!name.ends_with("_null") && is_null_of(cell.name, stem_of(name)))) {
      out.push_back(cell);
    }
  }
  return !out.empty() && out.front().name == name ? out : std::vector<NamedCell>();
}

void keep_top(results::ShownCells& shown, TopRows& top) {
  if (top.by.empty()) {
    top.by = summary_of(shown).top_by;
  }
  const RowNumber number = number_named(shown, top.by);
  std::erase_if(shown.rows, [&](const results::ShownRow& row) {
    return row.status != "measured" || std::isnan(number(row));
  });
  std::stable_sort(shown.rows.begin(), shown.rows.end(),
                   [&](const results::ShownRow& a, const results::ShownRow& b) {
                     return top.is_ascending ? number(a) < number(b) : number(a) > number(b);
                   });
  shown.rows.resize(std::min(shown.rows.size(), top.count));
}

}  // namespace vindex::report
