// Owns finding a kind of file among all there are, and which columns a table of it has.
#include "schema.hpp"

#include "cell_description.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

namespace vindex::results {

namespace {

/// Of the ScopedSchema that lives.
std::atomic<const Schema*> scoped_schema = nullptr;

/// The first schema that `is_wanted`, or null.
template <typename Predicate>
const Schema* find_schema(Predicate is_wanted) {
  const std::span<const Schema> all = schemas();
  const auto found = std::find_if(all.begin(), all.end(), is_wanted);
  if (found != all.end()) {
    return &*found;
  }
  const Schema* const scoped = scoped_schema;
  return scoped != nullptr && is_wanted(*scoped) ? scoped : nullptr;
}

}  // namespace

const Schema& schema_of(FileSchema id) {
  const Schema* const found = find_schema([&](const Schema& schema) { return schema.id == id; });
  expects(found != nullptr, "a schema that has a row");
  return *found;
}

const Schema* schema_named(std::string_view name) {
  return find_schema([&](const Schema& schema) { return name == schema.name; });
}

ScopedSchema::ScopedSchema(const Schema& schema) : schema_(schema) {
  const auto is_alike = [&](const Schema& other) {
    return other.id == schema.id || std::string_view(other.name) == schema.name;
  };
  expects(schema.cells != nullptr && scoped_schema == nullptr && find_schema(is_alike) == nullptr,
          "ScopedSchema: the only one, with an id and a name of its own");
  scoped_schema = &schema_;
}

ScopedSchema::~ScopedSchema() { scoped_schema = nullptr; }

const char* row_noun(FileSchema schema) { return schema_of(schema).rows; }
const char* writing_command(FileSchema schema) { return schema_of(schema).command; }
const char* outcome_word(FileSchema schema) { return schema_of(schema).outcome; }

std::string table_group(const Schema& schema, model::ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string(schema.table);
}

std::int64_t minor_version(std::string_view version) {
  std::int64_t minor = 0;
  const std::size_t dot = version.find('.');
  if (dot != std::string_view::npos) {
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  }
  return std::max<std::int64_t>(minor, 0);
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
std::size_t chosen_in(const h5::File& file, const Schema& schema, const TableLayout& layout) {
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
    layout.chosen = chosen_in(file, schema, layout);
  }
  return layout;
}

std::vector<Column> resume_columns(const Schema& schema) {
  std::vector<Column> columns = {
      MemberColumn{"error_class", "exit code that a failed row leads to", &StoredRow::error_class}
          .column()};
  for (const CellColumn& cell : schema.cells->resume) {
    columns.push_back(cell_column(cell, cell.place, 0));
  }
  return columns;
}

}  // namespace vindex::results
