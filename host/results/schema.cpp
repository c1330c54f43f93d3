// Owns the table of schemas, a row for each kind of file.
#include "schema.hpp"

#include "cell_columns.hpp"
#include "cell_description.hpp"
#include "pair_columns.hpp"
#include "result_tables.hpp"

#include <vindex/core/error.hpp>
#include <vindex/results/activations_cells.hpp>
#include <vindex/results/cka_cells.hpp>
#include <vindex/results/experts_cells.hpp>
#include <vindex/results/routing_cells.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace vindex::results {

namespace {

/// Pairs have columns of their own (pair_columns.hpp).
constexpr CellTable kPairTable = {};

constexpr std::array<Schema, 6> kSchemas = {{{.id = FileSchema::kResults,
                                              .name = "vindex-results",
                                              .version = "1.3",
                                              .rows = "matrices",
                                              .verb = "measure",
                                              .table = "/matrix",
                                              .dimension = "matrix",
                                              .name_column = "tensor",
                                              .has_spectra = true,
                                              .outcome = "measured"},
                                             {.id = FileSchema::kCompare,
                                              .name = "vindex-compare",
                                              .version = "1.1",
                                              .rows = "pairs",
                                              .verb = "compare",
                                              .table = "/pair",
                                              .dimension = "pair",
                                              .name_column = "tensor_a",
                                              .outcome = "compared",
                                              .cells = &kPairTable},
                                             {.id = FileSchema::kExperts,
                                              .name = "vindex-experts",
                                              .version = "1.1",
                                              .rows = "groups",
                                              .verb = "experts",
                                              .table = "/group",
                                              .dimension = "group",
                                              .name_column = "tensor",
                                              .outcome = "measured",
                                              .cells = &kExpertsTable},
                                             {.id = FileSchema::kCka,
                                              .name = "vindex-cka",
                                              .version = "1.1",
                                              .rows = "layers",
                                              .verb = "cka",
                                              .table = "/layer",
                                              .dimension = "entry",
                                              .name_column = "tensor",
                                              .outcome = "compared",
                                              .cells = &kCkaTable,
                                              .root_scale = "layers_a"},
                                             {.id = FileSchema::kActivations,
                                              .name = "vindex-activations",
                                              .version = "1.0",
                                              .rows = "layers",
                                              .verb = "activations",
                                              .table = "/layer",
                                              .dimension = "entry",
                                              .name_column = "tensor",
                                              .outcome = "measured",
                                              .cells = &kActivationsTable},
                                             {.id = FileSchema::kRouting,
                                              .name = "vindex-routing",
                                              .version = "1.1",
                                              .rows = "layers",
                                              .verb = "routing",
                                              .table = "/layer",
                                              .dimension = "entry",
                                              .name_column = "tensor",
                                              .outcome = "measured",
                                              .cells = &kRoutingTable}}};

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
const char* outcome_word(FileSchema schema) { return schema_of(schema).outcome; }

std::string table_group(const Schema& schema, model::ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string(schema.table);
}

std::vector<Column> table_columns(const FileDescription& description, model::ResultTable table) {
  switch (description.schema) {
    case FileSchema::kResults:
      return matrix_columns(column_options(description, table));
    case FileSchema::kCompare:
      return pair_columns(pair_columns_of(description));
    default: {
      const Schema& schema = schema_of(description.schema);
      return cell_columns(schema, description.optional_columns, minor_version(schema.version));
    }
  }
}

std::vector<Column> table_columns(const Schema& schema, const h5::File& file,
                                  model::ResultTable table) {
  switch (schema.id) {
    case FileSchema::kResults:
      return matrix_columns(column_options(file, table));
    case FileSchema::kCompare:
      return pair_columns(pair_columns_of(file));
    default:
      return cell_columns(schema, optional_columns_in(file),
                          minor_version(file.text_attribute("/", "schema_version")));
  }
}

std::int64_t minor_version(std::string_view version) {
  std::int64_t minor = 0;
  const std::size_t dot = version.find('.');
  if (dot != std::string_view::npos) {
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  }
  return std::max<std::int64_t>(minor, 0);
}

std::vector<Column> resume_columns(const Schema& schema) {
  std::vector<Column> columns = resume_columns();
  if (!schema.has_spectra) {
    std::erase_if(columns, [](const Column& column) { return column.name == "moments"; });
  }
  return columns;
}

}  // namespace vindex::results
