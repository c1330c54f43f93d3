// Owns the columns of a summary that are cells, and how their numbers are printed.
#include "summary.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace vindex::results {

SummaryColumn number_column(std::string heading, std::size_t cell, std::uint8_t dropped_as) {
  return {.heading = std::move(heading),
          .value = [cell](const ViewRow& row) { return row.cells[cell]; },
          .dropped_as = dropped_as,
          .cell = cell};
}

SummaryColumn count_column(std::string heading, std::size_t cell, std::uint8_t dropped_as) {
  SummaryColumn column = number_column(std::move(heading), cell, dropped_as);
  column.is_count = true;
  return column;
}

SummaryColumn null_column(std::string heading, std::size_t cell) {
  SummaryColumn column = number_column(std::move(heading), cell);
  column.is_null = true;
  return column;
}

std::string number_text(double value, bool is_count) {
  return std::isnan(value) ? "-"
         : is_count        ? fmt::format("{:.0f}", value)
         : value == 0.0    ? "0"
                           : fmt::format("{:.3g}", value);
}

}  // namespace vindex::results
