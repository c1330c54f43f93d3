// Owns counting the rows of tables.
#include "table_rows.hpp"

namespace vindex::results {

bool has_table(const h5::File& file, model::ResultTable table) {
  return !is_derived(table) || file.exists(table_group(table));
}

std::int64_t row_count(const h5::File& file, const Schema& schema, model::ResultTable table) {
  const std::string group = table_group(schema, table);
  const h5::Shape shape = file.open_dataset(group + "/" + schema.name_column).shape();
  // A name takes 16 bytes of reference at least.
  if (shape.size() != 1 || shape[0] > file.size() / 16 + 1) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + group), "wrong shape");
  }
  return static_cast<std::int64_t>(shape[0]);
}

std::int64_t first_row(const h5::File& file, const Schema& schema, model::ResultTable table) {
  std::int64_t first = 0;
  for (const model::ResultTable before : kTables) {
    if (before < table && has_table(file, before)) {
      first += row_count(file, schema, before);
    }
  }
  return first;
}

}  // namespace vindex::results
