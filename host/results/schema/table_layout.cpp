// Owns reading off a description, or off a file, what a table of it has.
#include "table_layout.hpp"

#include "core/text/secrets.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace vindex::results {

bool TableLayout::has(std::string_view group) const {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

std::int64_t minor_version(std::string_view version) {
  std::int64_t minor = 0;
  const std::size_t dot = version.find('.');
  if (dot != std::string_view::npos) {
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  }
  return std::max<std::int64_t>(minor, 0);
}

std::vector<std::string> optional_columns_in(const h5::File& file) {
  return file.exists(kOptionalColumns) ? file.read_strings(kOptionalColumns)
                                       : std::vector<std::string>();
}

void add_structural_groups(model::ResultTable table, bool fast, TableLayout& layout) {
  if (is_derived(table)) {
    layout.groups.emplace_back("derived");
  }
  if (table == model::ResultTable::kProduct) {
    layout.groups.emplace_back("product");
  }
  if (has_top_only(table, fast)) {
    layout.groups.emplace_back("fast");
  }
}

namespace {

/// How many values of a scale that the run chooses `file` has; 0: none.
std::size_t scale_length_in(const h5::File& file, const Schema& schema, const TableLayout& layout) {
  for (const CellColumn& column : schema.cells->cells) {
    const std::string path = fmt::format("{}/{}", schema.table, column.name);
    if (column.width != kAsManyAsTheRun || !is_present(column, layout.groups) ||
        !file.exists(path)) {
      continue;
    }
    const auto scale =
        std::find_if(schema.cells->second.begin(), schema.cells->second.end(),
                     [&](const SecondScale& second) { return second.name == column.scale; });
    expects(scale != schema.cells->second.end(), "a scale of every column along one");
    const h5::Shape shape = file.open_dataset(path).shape();
    if (shape.size() != 2 || shape[1] < 1 || shape[1] > scale->most) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
    }
    return shape[1];
  }
  return 0;
}

}  // namespace

TableLayout table_layout(const FileDescription& description, model::ResultTable table) {
  const Schema& schema = schema_of(description.schema);
  TableLayout layout{.groups = description.optional_columns,
                     .minor = minor_version(schema.version)};
  if (schema.add_groups != nullptr) {
    schema.add_groups(description, table, layout);
  }
  return layout;
}

TableLayout table_layout(const Schema& schema, const h5::File& file, model::ResultTable table) {
  TableLayout layout{.minor = minor_version(file.text_attribute("/", "schema_version"))};
  const std::span<const ColumnGroup> groups = schema.cells->groups;
  if (groups.empty()) {
    layout.groups = optional_columns_in(file);
  }
  for (const ColumnGroup& group : groups) {
    if (file.exists(fmt::format("{}/{}", table_group(schema, table), group.mark))) {
      layout.groups.emplace_back(group.name);
    }
  }
  if (schema.has_spectra) {
    add_structural_groups(table, file.text_attribute("/", "mode") == "fast", layout);
  } else {
    layout.scale_length = scale_length_in(file, schema, layout);
  }
  return layout;
}

}  // namespace vindex::results
