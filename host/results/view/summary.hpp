// Owns how a kind of file whose rows are cells says what is to be shown of it.
#pragma once

#include "results_view.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_table.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace vindex::results {

/// A column of a summary: a heading, and a row's number. One without a number in any row is left
/// out.
struct SummaryColumn {
  std::string heading;
  std::function<double(const ViewRow&)> value;
  bool is_count = false;
  /// Stands right beside what it is the null of, or the error, and is dropped with it and never
  /// before it: a statistic never stands without its null.
  bool is_null = false;
  std::uint8_t dropped_as = 0;                                 ///< TextColumn's
  std::size_t cell = std::numeric_limits<std::size_t>::max();  ///< that `value` is, where it is one
  std::function<std::string(const ViewRow&)> text = {};        ///< instead of a number
};
/// A cell of the row, a count, and what noise gives.
SummaryColumn number_column(std::string heading, std::size_t cell, std::uint8_t dropped_as = 0);
SummaryColumn count_column(std::string heading, std::size_t cell, std::uint8_t dropped_as = 0);
SummaryColumn null_column(std::string heading, std::size_t cell);
/// As they stand in tables: three digits, a count whole, "-" for NaN.
std::string number_text(double value, bool is_count = false);

struct SummaryTable {
  std::vector<std::vector<std::string>> cells = {};
  std::vector<TextColumn> layout = {};
  std::string title = {};  ///< a line above it
  /// Not empty: the table is shown only where all of it fits, else this line.
  std::string otherwise = {};
};

/// What is shown of a file: a row of `columns` for each of its rows, further tables, what the
/// headings mean and what stands out, and what its document has beside rows.
struct Summary {
  std::vector<SummaryColumn> columns = {};
  std::vector<SummaryTable> tables = {};
  std::string remark = {};
  Json members = Json::object();
  /// The tables say it all: rows are shown where some of them are asked for (`show --top`).
  bool has_own_tables = false;
  bool has_names = false;   ///< layer and role do not tell rows apart: their tensors' names do
  std::string top_by = {};  ///< column that `show --top` takes by itself
};

}  // namespace vindex::results
