// Owns attributes of columns, and the writing of tables that are none of rows.
#include "table_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vindex::results {

void TableWriter::finish(h5::Dataset& dataset, const std::string& name,
                         const std::string& long_name, const std::string& units,
                         const std::string& second) {
  if (bare_) {
    return;
  }
  std::vector<std::string> scales = {path(dimension_)};
  if (!second.empty()) {
    scales.push_back(path(second));
  }
  file_.attach_scales(dataset, scales);
  dataset.set_attribute("long_name", long_name);
  if (!units.empty()) {
    dataset.set_attribute("units", units);
  }
  if (!coordinates_.empty() &&
      std::find(coordinates_.begin(), coordinates_.end(), name) == coordinates_.end()) {
    dataset.set_attribute("coordinates", fmt::format("{}", fmt::join(coordinates_, " ")));
  }
}

void write_side_table(h5::File& file, const SideTable& table) {
  TableWriter writer(file, table.group, table.dimension, table.rows, table.long_name,
                     table.coordinates);
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
