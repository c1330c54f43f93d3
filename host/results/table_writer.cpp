// Owns the writing of tables that are none of rows.
#include "table_writer.hpp"

namespace vindex::results {

h5::Type SideColumn::type() const {
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

void write_side_table(h5::File& file, const SideTable& table, bool bare) {
  TableWriter writer(file, table.group, table.dimension, table.rows, table.long_name,
                     table.coordinates, bare);
  for (const SideColumn& column : table.columns) {
    std::visit(
        [&](const auto& list) {
          using T = typename std::remove_cvref_t<decltype(list)>::value_type;
          if constexpr (std::is_same_v<T, std::string>) {
            writer.strings(column.name, list, column.long_name);
          } else {
            writer.numbers<T>(column.name, list, column.long_name, column.units);
          }
        },
        column.values);
  }
}

}  // namespace vindex::results
