// Owns finding a kind of file among all there are.
#include "schema.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <string_view>

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

}  // namespace vindex::results
