// Owns what a file of gate vectors is: its row of the table of kinds, what it promises beyond its
// columns, and what is shown of it.
#include "gate_vector_cells.hpp"
#include "gate_vector_layout.hpp"

#include "results/reading/file_checker.hpp"
#include "results/reading/table_rows.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/view/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace vindex::commands {

namespace {

constexpr results::MemberColumn kMembers[] = {
    results::kTensorColumn,   results::kSliceColumn,  results::kLayerColumn, results::kBlockColumn,
    results::kExpertColumn,   results::kRoleColumn,   results::kRowsColumn,  results::kColsColumn,
    results::kEncodingColumn, results::kStatusColumn, results::kReasonColumn};

/// That the bytes are those that the digests are of.
void check_digests(results::FileChecker& checker, const std::string& group,
                   const std::string& scale, const StoredVectors& vectors) {
  checker.column(group + "/" + scale, results::h5::Type::kInt64, {vectors.rows}, "");
  checker.column(group + "/input", results::h5::Type::kInt64, {vectors.cols}, "");
  const results::h5::Dataset dataset = checker.reader().file().open_dataset(group + "/vectors");
  const auto step = static_cast<std::uint64_t>(block_rows(vectors.row_bytes()));
  std::vector<std::byte> bytes;
  for (std::uint64_t first = 0; first < vectors.rows; first += step) {
    const std::uint64_t count = std::min(step, vectors.rows - first);
    bytes.resize(count * vectors.row_bytes());
    dataset.read_bytes(first, count, bytes);
    if (block_digest(bytes) != vectors.digests[first / step]) {
      checker.require(false, fmt::format("{}/vectors: rows {} to {} are not what was written",
                                         group, first, first + count - 1));
      return;
    }
  }
}

/// Lists that go on from row to row of /gate/.
class FeatureChecker {
 public:
  FeatureChecker(results::FileChecker& checker, std::uint64_t count)
      : checker_(checker), count_(count) {
    const results::h5::File& file = checker.reader().file();
    const std::string scale = "/feature/feature";
    checker.column("/feature/norm", results::h5::Type::kFloat64, {count}, scale);
    checker.column("/feature/gate_down_cosine", results::h5::Type::kFloat64, {count}, scale);
    norms_ = results::read_numbers<double>(file, "/feature/norm", {count});
    const auto cosines = results::read_numbers<double>(file, "/feature/gate_down_cosine", {count});
    checker.require(
        std::none_of(cosines.begin(), cosines.end(), [](double c) { return std::abs(c) > 1.0; }),
        "/feature/gate_down_cosine: not between -1 and 1");
    check_tokens();
  }

  void matrix(const results::StoredRow& row) {
    const auto number = [&](std::size_t cell) {
      const double value = row.cell(cell);
      return value >= 0.0 ? static_cast<std::uint64_t>(value) : 0;
    };
    const std::uint64_t features = number(gate_vector_cell("features"));
    const std::string where = "/gate: " + results::row_key(row);
    if (number(gate_vector_cell("first")) != next_ || features > count_ - next_) {
      checker_.require(false, where + " has features that are not its own");
      return;
    }
    const auto begin = norms_.begin() + static_cast<std::ptrdiff_t>(next_);
    const auto end = begin + static_cast<std::ptrdiff_t>(features);
    const auto zero = std::count(begin, end, 0.0);
    const auto bad = std::count_if(begin, end, [](double norm) { return !(norm >= 0.0); });
    checker_.require(std::cmp_equal(zero, number(gate_vector_cell("zero_features"))) &&
                         std::cmp_equal(bad, number(gate_vector_cell("not_finite_features"))),
                     where + ": other counts than its norms have");
    next_ += features;
  }
  void end() {
    checker_.require(next_ == count_, "/feature: other rows than the matrices of /gate have");
  }

 private:
  void check_tokens() {
    const results::h5::File& file = checker_.reader().file();
    if (!file.text_attribute("/", kNoTokensAttribute).empty()) {
      return;
    }
    const std::uint64_t named = file.open_dataset("/feature/token").side(1);
    const std::string scale = "/feature/feature";
    checker_.column("/feature/token", results::h5::Type::kInt32, {count_, named}, scale);
    checker_.column("/feature/token_score", results::h5::Type::kFloat64, {count_, named}, scale);
    checker_.column("/feature/rank", results::h5::Type::kInt32, {named}, "");
    const auto tokens =
        results::read_numbers<std::int32_t>(file, "/feature/token", {count_, named});
    const auto scores =
        results::read_numbers<double>(file, "/feature/token_score", {count_, named});
    checker_.require(std::none_of(tokens.begin(), tokens.end(), [](auto t) { return t < -1; }),
                     "/feature/token: numbers below -1");
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (i % named != 0 && scores[i] > scores[i - 1]) {
        checker_.require(false, "/feature/token_score: does not descend");
        return;
      }
    }
  }

  results::FileChecker& checker_;
  std::uint64_t count_;
  std::uint64_t next_ = 0;
  std::vector<double> norms_;
};

void check_gate_vectors(results::FileChecker& checker) {
  const results::h5::File& file = checker.reader().file();
  const std::uint64_t bytes = checker.reader().file().size();
  const StoredVectors features = stored_vectors(file, "/feature", bytes);
  check_digests(checker, "/feature", "feature", features);
  FeatureChecker lists(checker, features.rows);
  for (const results::StoredRow& row : checker.rows()) {
    if (row.status == MatrixStatus::kMeasured) {
      checker.require(std::cmp_equal(row.cols, features.cols),
                      "/gate: " + results::row_key(row) + " has other inputs than the vectors");
      lists.matrix(row);
    }
  }
  lists.end();
  if (file.exists("/embedding")) {
    const StoredVectors embedding = stored_vectors(file, "/embedding", bytes);
    check_digests(checker, "/embedding", "token", embedding);
    const double scale = results::read_numbers<double>(file, "/embedding/scale", {1}).front();
    checker.require(std::isfinite(scale) && scale != 0.0, "/embedding/scale: no factor");
  }
  (void)stored_vocabulary(file);
  for (const char* name : {kFeatureRoleAttribute, kScaleSourceAttribute, kNoTokensAttribute}) {
    checker.require_attribute("/", name);
  }
}

/// Matrices of one layer and block together: means over them.
struct ShownGates {
  std::int64_t matrices = 0, features = 0;
  double norm = 0.0, cosine = 0.0, null = 0.0, rounding = 0.0;
};

results::SummaryTable gates_table(const results::ResultsView& shown) {
  std::map<std::pair<std::int32_t, model::Block>, ShownGates> groups;
  for (const results::ViewRow& row : shown.rows) {
    const double features = row.cells[gate_vector_cell("features")];
    if (std::isnan(features)) {
      continue;
    }
    ShownGates& group = groups[{row.layer, row.block}];
    ++group.matrices;
    group.features += static_cast<std::int64_t>(features);
    group.norm += row.cells[gate_vector_cell("norm_mean")];
    group.cosine += row.cells[gate_vector_cell("gate_down_cosine_abs_mean")];
    group.null += row.cells[gate_vector_cell("gate_down_cosine_abs_mean_null")];
    group.rounding = std::max(group.rounding, row.cells[gate_vector_cell("rounding_error")]);
  }
  results::SummaryTable table;
  table.cells = {
      {"layer", "block", "matrices", "features", "norm", "gate.down", "noise", "rounding"}};
  const TextColumn right = {.right = true};
  table.layout = {right, {}, right, right, right, right, right, right};
  for (const auto& [key, group] : groups) {
    const auto mean = [&count = group.matrices](double sum) {
      return results::number_text(sum / static_cast<double>(count));
    };
    table.cells.push_back(
        {key.first < 0 ? "-" : std::to_string(key.first),
         std::string(model::block_name(key.second)), std::to_string(group.matrices),
         std::to_string(group.features), mean(group.norm), mean(group.cosine), mean(group.null),
         group.rounding == 0.0 ? "exact" : fmt::format("{:.1e}", group.rounding)});
  }
  return table;
}

results::Summary gate_vectors_summary(const results::ResultsView& shown) {
  return {
      .columns = {results::count_column("features", gate_vector_cell("features")),
                  results::number_column("norm", gate_vector_cell("norm_mean")),
                  results::number_column("gate.down",
                                         gate_vector_cell("gate_down_cosine_abs_mean")),
                  results::null_column("noise", gate_vector_cell("gate_down_cosine_abs_mean_null")),
                  results::number_column("rounding", gate_vector_cell("rounding_error"))},
      .tables = {gates_table(shown)},
      .remark =
          "features of a model, for `vindex lookup FILE`; norm: mean; gate.down: mean "
          "absolute cosine of a feature with the column of down_proj that it writes; "
          "noise: of independent directions; rounding: norm(stored - decoded) / "
          "norm(decoded), the largest",
      .has_own_tables = true,
      .has_names = true,
      .top_by = "gate_down_cosine_abs_mean"};
}

}  // namespace

results::Schema gate_vectors_schema() {
  return {.id = results::FileSchema::kGateVectors,
          .name = "vindex-gate-vectors",
          .version = "1.0",
          .rows = "matrices",
          .command = "lookup",
          .table = "/gate",
          .dimension = "matrix",
          .name_column = "tensor",
          .outcome = "stored",
          .members = kMembers,
          .cells = &kGateVectorTable,
          .check = check_gate_vectors,
          .summarise = gate_vectors_summary};
}

}  // namespace vindex::commands
