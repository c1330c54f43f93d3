#include "schema.hpp"

#include "pair_columns.hpp"
#include "result_tables.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <array>

namespace vindex::results {

namespace {

constexpr std::array<Schema, 2> kSchemas = {{{.id = FileSchema::kResults,
                                              .name = "vindex-results",
                                              .version = "1.2",
                                              .major = 1,
                                              .rows = "matrices",
                                              .verb = "measure",
                                              .table = "/matrix",
                                              .dimension = "matrix",
                                              .name_column = "tensor",
                                              .has_spectra = true},
                                             {.id = FileSchema::kCompare,
                                              .name = "vindex-compare",
                                              .version = "1.0",
                                              .major = 1,
                                              .rows = "pairs",
                                              .verb = "compare",
                                              .table = "/pair",
                                              .dimension = "pair",
                                              .name_column = "tensor_a",
                                              .has_spectra = false}}};

}  // namespace

std::span<const Schema> schemas() { return kSchemas; }

const Schema& schema_of(FileSchema id) {
  const auto* const found = std::find_if(kSchemas.begin(), kSchemas.end(),
                                         [&](const Schema& schema) { return schema.id == id; });
  expects(found != kSchemas.end(), "a schema that has a row");
  return *found;
}

const char* row_noun(FileSchema schema) { return schema_of(schema).rows; }
const char* writing_verb(FileSchema schema) { return schema_of(schema).verb; }

std::string table_group(const Schema& schema, model::ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string(schema.table);
}

std::vector<Column> table_columns(const FileDescription& description, model::ResultTable table) {
  return description.schema == FileSchema::kCompare
             ? pair_columns(description.spectra_joined)
             : matrix_columns(column_options(description, table));
}

std::vector<Column> table_columns(const Schema& schema, const h5::File& file,
                                  model::ResultTable table) {
  return schema.id == FileSchema::kCompare ? pair_columns(has_pair_spectra(file))
                                           : matrix_columns(column_options(file, table));
}

std::vector<Column> resume_columns(const Schema& schema) {
  std::vector<Column> columns = resume_columns();
  if (!schema.has_spectra) {
    std::erase_if(columns, [](const Column& column) { return column.name == "moments"; });
  }
  return columns;
}

}  // namespace vindex::results
