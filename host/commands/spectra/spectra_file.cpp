// Owns what a file of `vindex measure` is: its row of the table of kinds, which groups of columns
// it has, and what it says of its run. What it is checked for: spectra_check.cpp.
#include "derived_tables.hpp"
#include "draw_lines.hpp"
#include "spectra_cells.hpp"

#include "commands/spectra/sampled/sample_columns.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/table_rows.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/schema/table_layout.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace vindex::commands {

namespace {

constexpr results::MemberColumn kSpectraMembers[] = {
    results::kTensorColumn,
    results::kSliceColumn,
    results::kLayerColumn,
    results::kExpertColumn,
    results::kBlockColumn,
    results::kRoleColumn,
    {"shard", "file the bytes came from", &results::StoredRow::shard},
    {"of_matrix", "row of /matrix/ that this one is derived from", &results::StoredRow::of_matrix,
     "derived"},
    results::kRowsColumn,
    results::kColsColumn,
    {"rank", "singular values that may differ from zero: the smallest side of the factors",
     &results::StoredRow::rank, "product"},
    results::kEncodingColumn,
    results::kStatusColumn,
    results::kReasonColumn,
    {"method", "route to the singular values", &results::StoredRow::method},
    {"escalated", "1 where a stricter route replaced the first one",
     &results::StoredRow::escalated},
    {"draw", "place in the draw of its (layer, block, role), -1 if none", &results::StoredRow::draw,
     "drawn"},
    {"draw_of", "matrices of that group in the model, -1 if it was not drawn",
     &results::StoredRow::draw_of, "drawn"}};

/// Weighted matrices have the sign flip always: it is their null; products have neither that nor
/// bounds.
void add_spectra_groups(const results::FileDescription& description, model::ResultTable table,
                        results::TableLayout& layout) {
  std::vector<std::string>& groups = layout.groups;
  groups.emplace_back("sigma_error");
  results::add_structural_groups(table, description.fast(), layout);
  if (table == model::ResultTable::kProduct) {
    return;
  }
  groups.emplace_back("theta");
  if (description.sign_flip_draws > 0 || table == model::ResultTable::kImatrix) {
    groups.insert(groups.end(), {"signflip", "distance"});
  }
  if (description.sign_flip_draws > 1) {
    groups.insert(groups.end(), {"spread", "spread_p"});
  }
  if (description.sampled && !results::is_derived(table)) {
    groups.insert(groups.end(), {"sampled", "scales", "permuted"});
  }
  if (draw_seed(description.fingerprint) && !results::is_derived(table)) {
    groups.emplace_back("drawn");
  }
}

void add_spectra_lines(const results::RunDescription& run, results::Fingerprint& lines) {
  lines.emplace_back("stored.mode", run.mode);
  lines.emplace_back("stored.spectra", run.store_spectra ? "yes" : "no");
  lines.emplace_back("stored.vectors", std::to_string(run.vectors));
  lines.emplace_back("stored.null", statistics::null_name(run.sign_flip_draws));
  if (run.sampled) {  // files of earlier versions have no such line
    lines.emplace_back("stored.sample", "yes");
  }
}

void describe_spectra(const results::ResultsReader& reader, results::FileDescription& out) {
  const results::h5::File& file = reader.file();
  out.mode = file.text_attribute("/", "mode");
  out.store_spectra = file.integer_attribute("/resume", "spectra") != 0;
  const std::int64_t draws = file.integer_attribute("/resume", "sign_flip");
  out.sign_flip_draws =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(draws, 0, statistics::kMaxSignFlipDraws));
  const std::int64_t vectors = file.integer_attribute("/resume", "vectors");
  out.vectors = static_cast<std::int32_t>(std::clamp<std::int64_t>(vectors, 0, 1 << 20));
  out.sampled = file.has_attribute("/resume", "sampled");
  if (!file.exists("/run")) {
    return;
  }
  const std::vector<std::string> names = file.read_strings("/tensor/name");
  out.tensors.resize(names.size());
  const auto text = [&](const char* name, std::string results::TensorEntry::*member) {
    const std::vector<std::string> values = file.read_strings(std::string("/tensor/") + name);
    if (values.size() != names.size()) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file.label()),
                        std::string("/tensor/") + name + " has the wrong length");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      out.tensors[i].*member = values[i];
    }
  };
  text("name", &results::TensorEntry::name);
  text("stored", &results::TensorEntry::stored);
  text("block", &results::TensorEntry::block);
  text("role", &results::TensorEntry::role);
  text("shape", &results::TensorEntry::shape);
  text("encoding", &results::TensorEntry::encoding);
  text("reason", &results::TensorEntry::reason);
  const auto layer = results::read_numbers<std::int32_t>(file, "/tensor/layer", {names.size()});
  const auto count = results::read_numbers<std::int64_t>(file, "/tensor/count", {names.size()});
  const auto in_matrix =
      results::read_numbers<std::int8_t>(file, "/tensor/in_matrix", {names.size()});
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.tensors[i].layer = layer[i];
    out.tensors[i].count = count[i];
    out.tensors[i].in_matrix = in_matrix[i] != 0;
  }
  if (!out.sampled) {
    return;
  }
  text("organ_class", &results::TensorEntry::organ_class);
  for (const auto columns : {qq_columns(), sample_columns()}) {
    for (const SampleColumn& column : columns) {
      const std::string path = std::string("/tensor/") + column.name;
      if (column.set == nullptr) {
        continue;
      }
      if (column.is_count) {
        const auto values = results::read_numbers<std::int32_t>(file, path, {names.size()});
        for (std::size_t i = 0; i < names.size(); ++i) {
          column.set(out.tensors[i].angles, values[i]);
        }
      } else {
        const auto values = results::read_numbers<double>(file, path, {names.size()});
        for (std::size_t i = 0; i < names.size(); ++i) {
          column.set(out.tensors[i].angles, values[i]);
        }
      }
    }
  }
  if (file.exists("/tensor/z_reason")) {
    text("z_reason", &results::TensorEntry::scales_missing);
    for (const ScaleColumn& column : scale_columns()) {
      const std::string path = std::string("/tensor/") + column.name;
      if (!file.exists(path)) {
        continue;  // before schema 1.5
      }
      const auto values = results::read_numbers<double>(file, path, {names.size()});
      for (std::size_t i = 0; i < names.size(); ++i) {
        out.tensors[i].scales.*column.member = values[i];
      }
    }
  }
  if (file.exists("/tensor/scale_count")) {
    const auto numbers =
        results::read_numbers<std::int64_t>(file, "/tensor/scale_count", {names.size()});
    const auto means = results::read_numbers<double>(file, "/tensor/scale_mean", {names.size()});
    const auto cvs = results::read_numbers<double>(file, "/tensor/scale_cv", {names.size()});
    for (std::size_t i = 0; i < names.size(); ++i) {
      out.tensors[i].block_scales = {numbers[i], means[i], cvs[i]};
    }
  }
  for (results::TensorEntry& tensor : out.tensors) {
    tensor.angles.is_constant = tensor.angles.theta_seed == 0.0;
  }
}

results::SideTables spectra_beside(const results::FileDescription& description,
                                   std::span<const results::StoredRow* const> rows,
                                   results::BulkSource& /*bulk*/, bool whole) {
  results::SideTables beside{
      .tables = {tensor_table(description.tensors,
                              description.sampled ? TensorSamples::kScales : TensorSamples::kNone,
                              rows)}};
  if (whole) {
    const std::optional<std::string> seed = draw_seed(description.fingerprint);
    beside.tables.push_back(layer_table(rows, seed.has_value()));
    if (results::SideTable nulls = null_table(rows); nulls.rows > 0) {
      beside.tables.push_back(std::move(nulls));
    }
    if (seed) {
      beside.attributes.push_back({"sample", sample_attribute(rows, *seed)});
    }
  }
  return beside;
}

}  // namespace

results::Schema spectra_schema() {
  return {.id = results::FileSchema::kResults,
          .name = "vindex-results",
          .version = "1.5",
          .rows = "matrices",
          .command = "measure",
          .table = "/matrix",
          .dimension = "matrix",
          .name_column = "tensor",
          .has_spectra = true,
          .outcome = "measured",
          .members = kSpectraMembers,
          .cells = &spectra_table(),
          .add_groups = add_spectra_groups,
          .add_lines = add_spectra_lines,
          .describe = describe_spectra,
          .beside = spectra_beside,
          .validate = validate_spectra};
}

}  // namespace vindex::commands
