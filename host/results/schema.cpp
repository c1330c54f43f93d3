// Owns the table of schemas, a row for each kind of file.
#include "schema.hpp"

#include "activations_cells.hpp"
#include "cell_description.hpp"
#include "cka_cells.hpp"
#include "experts_cells.hpp"
#include "pair_cells.hpp"
#include "routing_cells.hpp"
#include "spectra_cells.hpp"

#include "measure/subspace_overlap.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

namespace vindex::results {

namespace {

constexpr MemberColumn kTensorColumn = {"tensor", "logical name of the tensor in the model",
                                        &StoredRow::tensor};
constexpr MemberColumn kSliceColumn = {"slice", "index within a stacked tensor, -1 if none",
                                       &StoredRow::slice};
constexpr MemberColumn kLayerColumn = {"layer", "layer number in the tensor's name, -1 if none",
                                       &StoredRow::layer};
constexpr MemberColumn kExpertColumn = {"expert", "expert number, -1 if none", &StoredRow::expert};
constexpr MemberColumn kBlockColumn = {
    "block", "part of the transformer that the matrix belongs to", &StoredRow::block};
constexpr MemberColumn kRoleColumn = {"role", "what the matrix does in its block",
                                      &StoredRow::role};
constexpr MemberColumn kRowsColumn = {"rows", "outputs of the matrix", &StoredRow::rows};
constexpr MemberColumn kColsColumn = {"cols", "inputs of the matrix", &StoredRow::cols};
constexpr MemberColumn kEncodingColumn = {"encoding", "how the weights are stored",
                                          &StoredRow::encoding};
constexpr MemberColumn kStatusColumn = {"status", "outcome of the measurement", &StoredRow::status};
constexpr MemberColumn kReasonColumn = {
    "reason", "why a value is missing or the row was not measured", &StoredRow::reason};

constexpr MemberColumn kSpectraMembers[] = {
    kTensorColumn,
    kSliceColumn,
    kLayerColumn,
    kExpertColumn,
    kBlockColumn,
    kRoleColumn,
    {"shard", "file the bytes came from", &StoredRow::shard},
    {"of_matrix", "row of /matrix/ that this one is derived from", &StoredRow::of_matrix,
     "derived"},
    kRowsColumn,
    kColsColumn,
    {"rank", "singular values that may differ from zero: the smallest side of the factors",
     &StoredRow::rank, "product"},
    kEncodingColumn,
    kStatusColumn,
    kReasonColumn,
    {"method", "route to the singular values", &StoredRow::method},
    {"escalated", "1 where a stricter route replaced the first one", &StoredRow::escalated}};

constexpr MemberColumn kPairMembers[] = {
    {"tensor_a", "logical name of the tensor in model A", &StoredRow::tensor},
    {"tensor_b", "logical name of the tensor in model B", &StoredRow::other_tensor},
    kLayerColumn,
    kBlockColumn,
    kRoleColumn,
    kExpertColumn,
    kSliceColumn,
    kRowsColumn,
    kColsColumn,
    {"encoding_a", "how the weights of A are stored", &StoredRow::encoding},
    {"encoding_b", "how the weights of B are stored", &StoredRow::other_encoding},
    {"status", "outcome of the comparison", &StoredRow::status},
    {"reason", "why a value is missing or the pair was not compared", &StoredRow::reason}};

constexpr MemberColumn kCellMembers[] = {kTensorColumn,   kLayerColumn,  kBlockColumn,
                                         kRoleColumn,     kRowsColumn,   kColsColumn,
                                         kEncodingColumn, kStatusColumn, kReasonColumn};

constexpr Schema kSchemas[] = {{.id = FileSchema::kResults,
                                .name = "vindex-results",
                                .version = "1.3",
                                .rows = "matrices",
                                .verb = "measure",
                                .table = "/matrix",
                                .dimension = "matrix",
                                .name_column = "tensor",
                                .has_spectra = true,
                                .outcome = "measured",
                                .members = kSpectraMembers},
                               {.id = FileSchema::kCompare,
                                .name = "vindex-compare",
                                .version = "1.1",
                                .rows = "pairs",
                                .verb = "compare",
                                .table = "/pair",
                                .dimension = "pair",
                                .name_column = "tensor_a",
                                .outcome = "compared",
                                .members = kPairMembers,
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
                                .members = kCellMembers,
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
                                .members = kCellMembers,
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
                                .members = kCellMembers,
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
                                .members = kCellMembers,
                                .cells = &kRoutingTable}};

/// Of the ScopedSchema that lives.
std::atomic<const Schema*> scoped_schema = nullptr;

/// The first schema that `is_wanted`, or null.
template <typename Predicate>
const Schema* find_schema(Predicate is_wanted) {
  const auto* const found = std::find_if(std::begin(kSchemas), std::end(kSchemas), is_wanted);
  if (found != std::end(kSchemas)) {
    return found;
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
  expects(scoped_schema == nullptr && find_schema(is_alike) == nullptr,
          "ScopedSchema: the only one, with an id and a name of its own");
  scoped_schema = &schema_;
}

ScopedSchema::~ScopedSchema() { scoped_schema = nullptr; }

const char* row_noun(FileSchema schema) { return schema_of(schema).rows; }
const char* writing_verb(FileSchema schema) { return schema_of(schema).verb; }
const char* outcome_word(FileSchema schema) { return schema_of(schema).outcome; }

std::string table_group(const Schema& schema, model::ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string(schema.table);
}

const CellTable& cells_of(const Schema& schema) {
  return schema.cells == nullptr ? spectra_table() : *schema.cells;
}

std::int64_t minor_version(std::string_view version) {
  std::int64_t minor = 0;
  const std::size_t dot = version.find('.');
  if (dot != std::string_view::npos) {
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  }
  return std::max<std::int64_t>(minor, 0);
}

namespace {

/// Groups of spectra that follow from the table and the mode.
void add_kind_of_table(model::ResultTable table, bool fast, std::vector<std::string>& groups) {
  if (is_derived(table)) {
    groups.emplace_back("derived");
  }
  if (table == model::ResultTable::kProduct) {
    groups.emplace_back("product");
  }
  if (has_top_only(table, fast)) {
    groups.emplace_back("fast");
  }
}

/// Weighted matrices have the sign flip always: it is their null; products have neither that nor
/// bounds.
std::vector<std::string> spectra_groups(const FileDescription& description,
                                        model::ResultTable table) {
  std::vector<std::string> groups = {"sigma_error"};
  add_kind_of_table(table, description.fast(), groups);
  if (table == model::ResultTable::kProduct) {
    return groups;
  }
  groups.emplace_back("theta");
  if (description.sign_flip_draws > 0 || table == model::ResultTable::kImatrix) {
    groups.insert(groups.end(), {"signflip", "distance"});
  }
  if (description.sign_flip_draws > 1) {
    groups.insert(groups.end(), {"spread", "spread_p"});
  }
  if (description.sampled && !is_derived(table)) {
    groups.emplace_back("sampled");
  }
  return groups;
}

std::size_t angles_in(const h5::File& file) {
  if (!file.exists("/pair/angles_right")) {
    return 0;
  }
  const h5::Shape shape = file.open_dataset("/pair/angles_right").shape();
  if (shape.size() != 2 || shape[1] < 1 || shape[1] > measure::kMaxSubspace) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " /pair/angles_right"),
                      "wrong shape");
  }
  return shape[1];
}

}  // namespace

TableLayout table_layout(const FileDescription& description, model::ResultTable table) {
  TableLayout layout{.groups = description.optional_columns,
                     .minor = minor_version(schema_of(description.schema).version)};
  if (description.schema == FileSchema::kResults) {
    layout.groups = spectra_groups(description, table);
  }
  if (description.spectra_joined) {
    layout.groups.emplace_back(kSpectraColumns);
  }
  if (const auto angles = description.scales.find(kAngleScale);
      angles != description.scales.end() && !angles->second.integers.empty()) {
    layout.groups.emplace_back(kAngleScale);
    layout.chosen = angles->second.integers.size();
  }
  return layout;
}

TableLayout table_layout(const Schema& schema, const h5::File& file, model::ResultTable table) {
  TableLayout layout{.minor = minor_version(file.text_attribute("/", "schema_version"))};
  const std::span<const ColumnGroup> groups = cells_of(schema).groups;
  if (groups.empty()) {
    layout.groups = optional_columns_in(file);
  }
  for (const ColumnGroup& group : groups) {
    if (file.exists(fmt::format("{}/{}", table_group(schema, table), group.mark))) {
      layout.groups.emplace_back(group.name);
    }
  }
  if (schema.has_spectra) {
    add_kind_of_table(table, file.text_attribute("/", "mode") == "fast", layout.groups);
  } else if (layout.has(kAngleScale)) {
    layout.chosen = angles_in(file);
  }
  return layout;
}

std::vector<Column> resume_columns(const Schema& schema) {
  std::vector<Column> columns = {
      MemberColumn{"error_class", "exit code that a failed row leads to", &StoredRow::error_class}
          .column()};
  if (schema.has_spectra) {
    columns.push_back({.name = "moments",
                       .long_name =
                           "count zeros nonfinite mean m2 m3 m4 sum_squares min max of the decoded "
                           "weights",
                       .place = offsetof(SpectrumNumbers, moments) / sizeof(double),
                       .units = "1",
                       .scale = "moment",
                       .width = kMomentCount});
  }
  return columns;
}

}  // namespace vindex::results
