// Owns a column of a table of rows: its name, type, width, meaning, and where its values stand in a
// StoredRow. Writer, reader, validation and exports iterate over columns; what columns a kind of
// file has is declared in its <kind>_cells.hpp and its row of the table of kinds.
#pragma once

#include "cell_table.hpp"

#include "results/hdf5/hdf5.hpp"
#include "results/rows/stored_row.hpp"

#include <string>
#include <variant>

namespace vindex::results {

inline constexpr const char* kStatusMeanings =
    "measured not_converged not_finite unsupported failed skipped";

/// What of a row a column shows: a cell (its number), or a member.
using ColumnPlace = std::variant<std::size_t, std::string StoredRow::*, std::int32_t StoredRow::*,
                                 std::int64_t StoredRow::*, bool StoredRow::*,
                                 model::Block StoredRow::*, MatrixStatus StoredRow::*>;

struct Column {
  std::string name;
  std::string long_name;
  ColumnPlace place;
  h5::Type type = h5::Type::kFloat64;
  std::string units = {};             ///< "1" for pure numbers, empty for labels and indices
  bool missing_is_minus_one = false;  ///< NaN is -1, declared as `_FillValue`
  std::string scale = {};  ///< of the second dimension: "k"; empty: there is none, and width is 1
  std::size_t width = 1;
  std::size_t stride = 1;  ///< from one of its cells to the next

  bool is_cell() const { return place.index() == 0; }
  bool is_text() const { return type == h5::Type::kString; }
  /// Of columns of text.
  std::string text(const StoredRow& row) const;
  void set_text(StoredRow& row, const std::string& value) const;
  /// Of the others; exact below 2^53. A cell is set where the row has room for it.
  double number(const StoredRow& row, std::size_t i) const;
  void set_number(StoredRow& row, std::size_t i, double value) const;
};

/// A column that shows what a row is of, or how it ended.
struct MemberColumn {
  const char* name = "";
  const char* long_name = "";
  ColumnPlace place;
  const char* group = "";  ///< of tables that not every file has: "derived", "product"
  Column column() const;
};

}  // namespace vindex::results
