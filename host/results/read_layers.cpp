#include "derived_tables.hpp"
#include "results_reader.hpp"

#include <vindex/results/read_layers.hpp>

namespace vindex::results {

LayerTable read_layers(const std::string& path) {
  ResultsReader reader(path);
  LayerTable table;
  table.backend = reader.file().text_attribute("/", "backend");
  const std::vector<StoredRow> rows = reader.rows(0);
  std::vector<const StoredRow*> views;
  for (const StoredRow& row : rows) {
    views.push_back(&row);
  }
  table.groups = groups_of(views);
  for (measure::LayerGroup& group : table.groups) {
    group.role = table.roles.emplace_back(group.role);
  }
  return table;
}

}  // namespace vindex::results
