// Owns how a kind of results file declares what its rows hold beside their identity: numbers, and
// arrays along scales. One table per kind (<kind>_cells.hpp), included by the job that fills it and
// by whatever writes, reads, checks and shows it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace vindex::results {

enum class Presence : std::uint8_t {
  kAlways,
  kOptional,  ///< where RunDescription::optional_columns names it
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

/// A number per row, float64; counts are int32 with -1 (declared as _FillValue) for NaN.
struct CellColumn {
  std::string_view name;
  std::string_view long_name;
  bool integer = false;
  Range range = {};
  Presence presence = Presence::kAlways;
  std::string_view units = "1";
  std::int64_t since = 0;  ///< minor version of the schema that has it first
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

struct CellTable {
  std::span<const CellColumn> cells = {};
  std::span<const ArrayColumn> arrays = {};
  std::span<const ScaleColumn> scales = {};
};

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

/// Cells of which none is known.
inline std::vector<double> empty_cells(const CellTable& table) {
  return std::vector<double>(table.cells.size(), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace vindex::results
