// Owns how a kind of results file declares what its rows hold beside their identity: numbers, and
// arrays along scales. One table per kind, in the folder of its job (<kind>_cells.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

enum class Presence : std::uint8_t {
  kAlways,
  kOptional,  ///< where what the file was asked for names it or its group (is_present())
};

/// What a value may be, both ends included; NaN always may.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};
inline constexpr Range kAnything = {};
inline constexpr Range kCosineRange = {-1.0, 1.0};
inline constexpr Range kShareRange = {0.0, 1.0};
inline constexpr Range kNotNegative = {0.0};

/// What a column shows of a row.
enum class CellKind : std::uint8_t {
  kNumber,
  kFlag,    ///< 0 or 1, int8
  kMethod,  ///< no number: the text of how the row was computed
};

/// Right behind the cells of the column before.
inline constexpr std::size_t kAfterPrevious = std::numeric_limits<std::size_t>::max();

/// Numbers per row of a column along a scale whose values the run chooses.
inline constexpr std::size_t kAsManyAsTheRun = 0;

/// A number per row, or as many as its scale has values, float64; counts are int32 and flags int8,
/// with -1 (declared as _FillValue) for NaN; a kMethod is a text.
struct CellColumn {
  std::string_view name;
  std::string_view long_name;
  bool integer = false;
  Range range = {};
  Presence presence = Presence::kAlways;
  std::string_view units = "1";
  std::int64_t since = 0;       ///< minor version of the schema that has it first
  std::string_view group = {};  ///< of kOptional: by what it is asked for; empty: by its name
  std::string_view scale = {};  ///< of its second dimension (SecondScale); empty: it has one
  std::size_t width = 1;        ///< numbers per row
  CellKind kind = CellKind::kNumber;
  std::size_t place = kAfterPrevious;  ///< of its first number among the cells of a row
  std::size_t stride = 1;              ///< from one of its numbers to the next
};

/// A column that files of a minor version before `minor` have not.
constexpr CellColumn since(std::int64_t minor, CellColumn column) {
  column.since = minor;
  return column;
}

/// An array per row. `dims` are names of scales of the table; the second is empty where there is
/// one.
struct ArrayColumn {
  std::string_view name;
  std::string_view long_name;
  std::array<std::string_view, 2> dims = {};
  bool float32 = false;  ///< else float64
  Range range = {};
  Presence presence = Presence::kAlways;
  std::string_view units = "1";
};

/// A dimension of arrays; its values are RunDescription::scales.
struct ScaleColumn {
  std::string_view name;
  std::string_view long_name;
  bool integer = true;  ///< int64, else float64
};

/// Optional columns that a file has all of or none, known by one of them.
struct ColumnGroup {
  std::string_view name;
  std::string_view mark;  ///< the column
};

/// A dimension of columns that are several numbers per row.
struct SecondScale {
  std::string_view name;
  std::string_view long_name;
  std::span<const std::int32_t> values = {};  ///< empty: counted from `first`
  std::int32_t first = 0;
  std::size_t most = 0;  ///< values where the run chooses how many
};

struct CellTable {
  std::span<const CellColumn> cells = {};
  std::span<const ArrayColumn> arrays = {};
  std::span<const ScaleColumn> scales = {};  ///< of arrays
  std::span<const ColumnGroup> groups = {};  ///< empty: the file lists its optional columns
  std::span<const SecondScale> second = {};
  std::span<const CellColumn> resume = {};  ///< what of a row only a later run needs
};

/// Cells of `column` in a row of a run that chose `scale_length` values of a scale.
constexpr std::size_t cell_count(const CellColumn& column, std::size_t scale_length) {
  return column.kind == CellKind::kMethod  ? 0
         : column.width == kAsManyAsTheRun ? scale_length
                                           : column.width;
}

/// Cells of a row of a table whose columns follow one another.
constexpr std::size_t cell_count(std::span<const CellColumn> columns,
                                 std::size_t scale_length = 0) {
  std::size_t count = 0;
  for (const CellColumn& column : columns) {
    count += cell_count(column, scale_length);
  }
  return count;
}

/// Whether a file with the groups and optional columns `asked` has `column`.
template <typename Column>
bool is_present(const Column& column, std::span<const std::string> asked) {
  std::string_view group = column.name;
  if constexpr (requires { column.group; }) {
    group = column.group.empty() ? group : column.group;
  }
  return column.presence == Presence::kAlways ||
         std::find(asked.begin(), asked.end(), group) != asked.end();
}

/// Where `name` stands among `columns`; columns.size() where it does not.
template <typename Column>
constexpr std::size_t column_number(std::span<const Column> columns, std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const Column& column) { return column.name == name; });
  return static_cast<std::size_t>(found - columns.begin());
}

/// The same at compile time, where a name that is not there does not compile.
template <typename List>
consteval std::size_t number_in(const List& columns, std::string_view name) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) {
      return i;
    }
  }
  throw "no column of that name";  // NOLINT: ends the compilation
}

/// Names of the optional ones among all `columns`, in their order.
template <typename... Lists>
std::vector<std::string> optional_names(const Lists&... columns) {
  std::vector<std::string> names;
  const auto add = [&](const auto& list) {
    for (const auto& column : list) {
      if (column.presence == Presence::kOptional) {
        names.emplace_back(column.name);
      }
    }
  };
  (add(columns), ...);
  return names;
}

/// Place of the first number of column `name` among the cells of a row whose columns follow one
/// another.
template <typename List>
consteval std::size_t cell_in(const List& columns, std::string_view name) {
  return cell_count(std::span<const CellColumn>(columns).first(number_in(columns, name)));
}

/// Cells of which none is known, of a table whose columns follow one another.
inline std::vector<double> empty_cells(const CellTable& table, std::size_t scale_length = 0) {
  return std::vector<double>(cell_count(table.cells, scale_length),
                             std::numeric_limits<double>::quiet_NaN());
}

}  // namespace vindex::results
