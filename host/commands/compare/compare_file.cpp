// Owns what a file of `vindex compare` is: its row of the table of kinds, and what it promises
// beyond its columns. What is shown of it: comparison_summary.hpp.
#include "pair_cells.hpp"
#include "pair_summary.hpp"

#include "results/reading/file_checker.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/schema/table_layout.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::commands {

namespace {

constexpr results::MemberColumn kPairMembers[] = {
    {"tensor_a", "logical name of the tensor in model A", &results::StoredRow::tensor},
    {"tensor_b", "logical name of the tensor in model B", &results::StoredRow::other_tensor},
    results::kLayerColumn,
    results::kBlockColumn,
    results::kRoleColumn,
    results::kExpertColumn,
    results::kSliceColumn,
    results::kRowsColumn,
    results::kColsColumn,
    {"encoding_a", "how the weights of A are stored", &results::StoredRow::encoding},
    {"encoding_b", "how the weights of B are stored", &results::StoredRow::other_encoding},
    {"status", "outcome of the comparison", &results::StoredRow::status},
    {"reason", "why a value is missing or the pair was not compared", &results::StoredRow::reason}};

void add_pair_groups(const results::FileDescription& description, model::ResultTable /*table*/,
                     results::TableLayout& layout) {
  if (description.spectra_joined) {
    layout.groups.emplace_back(kSpectraColumns);
  }
  if (const auto angles = description.scales.find(kAngleScale);
      angles != description.scales.end() && !angles->second.integers.empty()) {
    layout.groups.emplace_back(kAngleScale);
    layout.scale_length = angles->second.integers.size();
  }
}

void add_pair_lines(const results::RunDescription& run, results::Fingerprint& lines) {
  lines.emplace_back("stored.spectra", run.compare.spectra ? "yes" : "no");
}

void describe_pairs(const results::ResultsReader& reader, results::FileDescription& out) {
  const results::h5::File& file = reader.file();
  const results::TableLayout layout =
      results::table_layout(reader.schema(), file, model::ResultTable::kMatrix);
  out.spectra_joined = layout.has(kSpectraColumns);
  out.optional_columns.clear();
  if (layout.has(kDeltaColumns)) {
    out.optional_columns.emplace_back(kDeltaColumns);
  }
  for (std::size_t i = 1; i <= layout.scale_length; ++i) {
    out.scales[kAngleScale].integers.push_back(static_cast<std::int64_t>(i));
  }
  if (!file.exists("/unpaired")) {
    return;
  }
  const std::vector<std::string> sides = file.read_strings("/unpaired/side");
  const std::vector<std::string> tensors = file.read_strings("/unpaired/tensor");
  const std::vector<std::string> reasons = file.read_strings("/unpaired/reason");
  if (tensors.size() != sides.size() || reasons.size() != sides.size()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label()),
                      "the columns of /unpaired/ differ in length");
  }
  for (std::size_t i = 0; i < sides.size(); ++i) {
    out.unpaired.push_back({sides[i], tensors[i], reasons[i]});
  }
}

/// /unpaired/: the matrices of both models that are in no pair.
results::SideTable unpaired_table(const std::vector<results::UnpairedMatrix>& unpaired) {
  results::SideTable table{.group = "/unpaired", .dimension = "entry", .long_name = "row number"};
  results::add_column(table, unpaired, "side", "", "model that the matrix is of: a or b",
                      &results::UnpairedMatrix::side);
  results::add_column(table, unpaired, "tensor", "", "logical name, with the index within a stack",
                      &results::UnpairedMatrix::tensor);
  results::add_column(table, unpaired, "reason", "", "why it is in no pair",
                      &results::UnpairedMatrix::reason);
  return table;
}

results::SideTables pairs_beside(const results::FileDescription& description,
                                 std::span<const results::StoredRow* const> /*rows*/,
                                 results::BulkSource& /*bulk*/, bool /*whole*/) {
  return {.tables = {unpaired_table(description.unpaired)}};
}

/// What the numbers of a pair promise of each other.
void check_pair(const results::StoredRow& row, std::vector<std::string>& wrong) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) {
      wrong.push_back(printable(what));
    }
  };
  const std::string where = "/pair: " + results::row_key(row);
  if (row.status != MatrixStatus::kMeasured) {
    return;
  }
  const double cosine = row.cell(pair_cell("cosine"));
  require(std::isnan(cosine) ? !row.reason.empty() : std::abs(cosine) <= 1.0,
          where + ": a cosine beyond 1, or none and no reason");
  require(row.cell(pair_cell("norm_a")) >= 0.0 && row.cell(pair_cell("norm_b")) >= 0.0 &&
              row.cell(pair_cell("max_abs_difference")) >= 0.0,
          where + ": a negative norm");
  // What stands beside the comparison, where the file has it.
  const auto in = [&](std::size_t which, double least, double most) {
    const double value = row.cell(which);
    require(std::isnan(value) || (value >= least && value <= most),
            where + ": a value out of its range");
  };
  const double p = static_cast<double>(row.shorter());
  constexpr double kRounding = 1e-9;
  in(pair_cell("delta_stable_rank"), 1.0 - 1e-5, p + 1e-5);
  in(pair_cell("delta_effective_rank"), 1.0 - kRounding, p + kRounding);
  in(pair_cell("delta_rank_gd"), 0.0, p);
  in(pair_cell("delta_rank_edge"), 0.0, p);
  in(pair_cell("delta_theta"), 0.0, 90.0);
  in(pair_cell("overlap_right"), 0.0, 1.0);
  in(pair_cell("overlap_left"), 0.0, 1.0);
  for (std::size_t i = pair_cell("angles_right"); i < row.cells.size(); ++i) {
    require(std::isnan(row.cells[i]) || (row.cells[i] >= 0.0 && row.cells[i] <= 90.0 + kRounding),
            where + ": an angle beyond 90 degrees");
  }
  require(
      row.cell(pair_cell("same_bits")) != 1.0 || row.cell(pair_cell("max_abs_difference")) == 0.0,
      where + " has the same bits and a difference");
}

void check_compare_file(results::FileChecker& checker) {
  checker.require_attribute("/", "model_b");
  std::vector<std::string> wrong;
  for (const results::StoredRow& row : checker.rows()) {
    check_pair(row, wrong);
  }
  for (const std::string& line : wrong) {
    checker.require(false, line);
  }
  checker.table(unpaired_table({}));
  for (const std::string& side : checker.reader().file().read_strings("/unpaired/side")) {
    checker.require(side == "a" || side == "b", "/unpaired/side: '" + side + "' is not a side");
  }
}

}  // namespace

results::Schema compare_schema() {
  return {.id = results::FileSchema::kCompare,
          .name = "vindex-compare",
          .version = "1.1",
          .rows = "pairs",
          .command = "compare",
          .table = "/pair",
          .dimension = "pair",
          .name_column = "tensor_a",
          .outcome = "compared",
          .members = kPairMembers,
          .cells = &kPairTable,
          .add_groups = add_pair_groups,
          .add_lines = add_pair_lines,
          .describe = describe_pairs,
          .beside = pairs_beside,
          .check = check_compare_file,
          .summarise = pair_summary};
}

}  // namespace vindex::commands
