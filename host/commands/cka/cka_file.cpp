// Owns what a file of `vindex cka` is: its row of the table of kinds, what it promises beyond its
// columns, and what is shown of it.
#include "cka_cells.hpp"
#include "cka_findings.hpp"
#include "cka_tables.hpp"

#include "results/reading/file_checker.hpp"
#include "results/reading/source_pool.hpp"
#include "results/reading/table_rows.hpp"
#include "results/schema/member_columns.hpp"
#include "results/schema/schema.hpp"
#include "results/schema/table_layout.hpp"
#include "results/view/summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

namespace {

void check_cka(const results::RowRules& rules) {
  const std::vector<double> cka = rules.array(cka_array("cka")).doubles;
  const std::vector<double> error = rules.array(cka_array("se")).doubles;
  const std::vector<double> low = rules.array(cka_array("ci_low")).doubles;
  const std::vector<double> high = rules.array(cka_array("ci_high")).doubles;
  for (std::size_t i = 0; i < std::min(low.size(), high.size()); ++i) {
    rules.require(!(low[i] > high[i]), "ci_low", "lies above ci_high");
    if (!error.empty()) {  // before version 1.1 intervals were drawn and need not hold the value
      rules.require(!(low[i] > cka.at(i)) && !(high[i] < cka.at(i)), "ci_low",
                    "and ci_high do not hold cka");
    }
  }
}

/// What a file of `vindex cka` says beside its rows is what follows from them.
void check_cka_file(results::FileChecker& checker) {
  results::check_rows(checker, check_cka);
  checker.table(beside_of({}).tables.front());
  results::ResultsReader& reader = checker.reader();
  const results::FileDescription& description = checker.description();
  const std::vector<results::StoredRow>& rows = checker.rows();
  const auto require = [&](bool condition, const char* what) { checker.require(condition, what); };
  const results::h5::File& file = reader.file();
  std::vector<const results::StoredRow*> pointers;
  std::vector<std::int64_t> layers;
  for (const results::StoredRow& row : rows) {
    pointers.push_back(&row);
    layers.push_back(row.layer);
  }
  require(results::read_numbers<std::int64_t>(file, "/layers_a", {rows.size()}) == layers,
          "/layers_a: not the layers of the rows");
  results::ReaderSource bulk(reader);
  const CkaFindings findings = cka_findings(description, pointers, bulk);
  const std::vector<MatchedLayer>& matched = findings.matched;
  const std::vector<double> cka =
      results::read_numbers<double>(file, "/matched/cka", {matched.size()});
  const auto a = results::read_numbers<std::int64_t>(file, "/matched/layer_a", {matched.size()});
  const auto b = results::read_numbers<std::int64_t>(file, "/matched/layer_b", {matched.size()});
  for (std::size_t i = 0; i < matched.size(); ++i) {
    require(a[i] == matched[i].layer_a && b[i] == matched[i].layer_b,
            "/matched: a row of other layers than lie at its depth");
    require(cka[i] == matched[i].cka || (std::isnan(cka[i]) && std::isnan(matched[i].cka)),
            "/matched/cka: not the value of /cka");
  }
  // Before version 1.2 they followed from another rule, and there is none to compare with.
  const std::string version = file.text_attribute("/", "schema_version");
  if (const auto& stages = findings.stages; stages && results::minor_version(version) >= 2) {
    require(
        file.has_attribute("/", "stages") && file.integer_attribute("/", "stages") == stages->count,
        "/: stages is missing, or not what the CKA of neighbours gives");
  }
  const auto scale = description.scales.find("layers_b");
  if (description.model != description.other_model || scale == description.scales.end() ||
      scale->second.integers != layers) {
    return;
  }
  std::vector<results::ArrayCell> lines;
  for (const results::StoredRow& row : rows) {
    lines.push_back(reader.arrays().read(row.bulk.row, cka_array("cka")));
  }
  bool is_symmetric = true;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // NaN where a row was not compared.
      is_symmetric &= !(std::abs(lines[i].doubles.at(j) - lines[j].doubles.at(i)) > 1e-6);
    }
  }
  require(is_symmetric, "/cka: of one model with itself, and not symmetric");
}

results::SideTables cka_beside(const results::FileDescription& description,
                               std::span<const results::StoredRow* const> rows,
                               results::BulkSource& bulk, bool whole) {
  return whole ? beside_of(cka_findings(description, rows, bulk)) : results::SideTables{};
}

std::string stages_text(const CkaFindings& findings) {
  if (!findings.stages) {
    return "stages of A: not known: they take the CKA of every layer and the next one, and its "
           "standard error over prompts";
  }
  if (findings.stage_breaks.empty()) {
    return "stages of A: 1 (the CKA of no layer and the next one lies below the trend of its "
           "neighbours by 3 standard errors)";
  }
  return fmt::format("stages of A: {} (breaks behind layers {})", findings.stages->count,
                     fmt::join(findings.stage_breaks, ", "));
}

Json cka_members(const CkaFindings& findings) {
  Json members = Json::object();
  Json& matched = members["matched"] = Json::array();
  for (const MatchedLayer& layer : findings.matched) {
    matched.push_back({{"depth", layer.depth},
                       {"layer_a", layer.layer_a},
                       {"layer_b", layer.layer_b},
                       {"cka", layer.cka},
                       {"cka_biased", layer.cka_biased},
                       {"null_q95", layer.null_q95},
                       {"p", layer.p}});
  }
  members["stages"] = findings.stages ? Json{{"count", findings.stages->count},
                                             {"breaks", findings.stage_breaks},
                                             {"limits", findings.stages->limits},
                                             {"median", findings.stages->median},
                                             {"mad", findings.stages->mad}}
                                      : Json(nullptr);
  return members;
}

results::Summary cka_summary(const results::ResultsView& shown) {
  const CkaFindings findings = findings_of(shown.beside);
  results::SummaryColumn noise = results::null_column("noise 95 %", 0);
  noise.value = [columns = cka_scale(shown)](const results::ViewRow& row) {
    return cka_number(row, "null_q95", columns, row.cells[cka_cell("best_layer_b")]);
  };
  return {.columns = {results::count_column("best in B", cka_cell("best_layer_b")),
                      results::number_column("cka", cka_cell("best_cka")), noise,
                      results::number_column("next in A", cka_cell("adjacent_cka")),
                      results::null_column("+-", cka_cell("adjacent_cka_se"))},
          .tables = cka_tables(shown, findings),
          .remark = stages_text(findings),
          .members = cka_members(findings),
          .has_own_tables = true,
          .top_by = "best_cka"};
}

}  // namespace

results::Schema cka_schema() {
  return {.id = results::FileSchema::kCka,
          .name = "vindex-cka",
          .version = "1.2",
          .rows = "layers",
          .command = "cka",
          .table = "/layer",
          .dimension = "entry",
          .name_column = "tensor",
          .outcome = "compared",
          .members = results::kCellMembers,
          .cells = &kCkaTable,
          .root_scale = "layers_a",
          .beside = cka_beside,
          .check = check_cka_file,
          .summarise = cka_summary};
}

}  // namespace vindex::commands
