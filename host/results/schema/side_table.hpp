// Owns tables that are none of rows (/tensor/, /layer/, /matched/, /unpaired/): their columns with
// their values, from which they are written and by which they are checked.
#pragma once

#include "run_description.hpp"

#include "results/hdf5/hdf5.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace vindex::results {

struct SideColumn {
  std::string name, long_name, units;
  std::variant<std::vector<std::string>, std::vector<std::int8_t>, std::vector<std::int32_t>,
               std::vector<std::int64_t>, std::vector<double>>
      values;
  h5::Type type() const {
    return std::visit(
        [](const auto& list) {
          using T = typename std::remove_cvref_t<decltype(list)>::value_type;
          if constexpr (std::is_same_v<T, std::string>) {
            return h5::Type::kString;
          } else {
            return h5::type_of<T>();
          }
        },
        values);
  }
};

struct SideTable {
  std::string group;      ///< "/tensor"
  std::string dimension;  ///< its scale: "entry"
  std::string long_name;  ///< of the scale
  std::vector<std::string> coordinates = {};
  std::uint64_t rows = 0;
  std::vector<SideColumn> columns = {};
};

/// What a file says beside its rows: tables that follow from them, and attributes of the root.
struct SideTables {
  std::vector<SideTable> tables = {};
  std::vector<RunAttribute> attributes = {};
};

/// Adds a column: `value` (a member, or a function) of every element of `from`.
template <typename Rows, typename Value>
void add_column(SideTable& to, const Rows& from, std::string name, std::string units,
                std::string long_name, const Value& value) {
  using T = std::remove_cvref_t<std::invoke_result_t<Value, decltype(*from.begin())>>;
  std::vector<T> values;
  values.reserve(from.size());
  for (const auto& row : from) {
    values.push_back(std::invoke(value, row));
  }
  to.rows = from.size();
  to.columns.push_back(
      {std::move(name), std::move(long_name), std::move(units), std::move(values)});
}

}  // namespace vindex::results
