// What `vindex show` tells of files whose rows are cells: text that fits, JSON with every number.
#include "report/cells/cells_text.hpp"

#include "commands/cka/cka_cells.hpp"
#include "commands/cka/cka_findings.hpp"
#include "commands/token_tables/activations_cells.hpp"
#include "core/text/text_table.hpp"
#include "report/cells/cells_json.hpp"
#include "report/export/export.hpp"
#include "results/reading/validate.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace vindex::results::testing::show_cells_test {
namespace {

using Json = nlohmann::json;

class ShowCells : public ::testing::TestWithParam<FileSchema> {
 protected:
  ShowCells() : path_(folder_ / "out.h5") { write_cells(path_, cell_run(GetParam())); }
  TestFolder folder_;
  std::string path_;
};

TEST_P(ShowCells, TextFitsTheTerminal) {
  const ResultsView shown = read_view(path_);
  EXPECT_NE(report::cells_headline(shown).find("4 of 4"), std::string::npos);
  for (const std::size_t width : {60U, 80U, 200U}) {
    std::istringstream lines(report::cells_text(shown, width));
    std::string line;
    std::size_t count = 0;
    while (std::getline(lines, line)) {
      EXPECT_LE(display_width(line), width) << line;
      ++count;
    }
    EXPECT_GE(count, 5U);
  }
}

TEST_P(ShowCells, JsonHasEveryNumberOfEveryRow) {
  const RunDescription run = cell_run(GetParam());
  const Json document = Json::parse(report::cells_json(read_view(path_)));
  EXPECT_EQ(document["schema"],
            std::string("vindex-") + writing_command(GetParam()) + "-summary/1");
  EXPECT_EQ(document["state"], "complete");
  EXPECT_EQ(document["attributes"]["tokens"], 64);
  EXPECT_EQ(document["attributes"]["rule"], "softmax, top 2");
  ASSERT_EQ(document["rows"].size(), 4U);
  const ResultRow wanted = cell_row(run, 2);
  const Json& row = document["rows"][2];
  std::size_t numbers = 0;
  for (const auto& [name, value] : row.items()) {
    numbers += value.is_number() ? 1 : 0;
  }
  EXPECT_GE(numbers, wanted.cells.size());
}

TEST_P(ShowCells, RowsAreChosenByLayer) {
  const ResultsView shown = read_view(path_, model::parse_selection("1-2", "", "", ""));
  ASSERT_EQ(shown.rows.size(), 2U);
  EXPECT_EQ(shown.rows.front().layer, 1);
  EXPECT_THROW(read_view(path_, model::parse_selection("9", "", "", "")), UsageError);
}

TEST_P(ShowCells, ARunIsShownBeforeItEnds) {
  const RunDescription run = cell_run(GetParam());
  const std::string path = folder_ / "running.h5";
  auto store = open_run_store(path, run, {}, false);
  store->add(cell_row(run, 1));
  store->publish_part();
  const ResultsView shown = read_view(path);
  EXPECT_EQ(shown.state, "running");
  EXPECT_EQ(shown.rows_measured, 1);
  EXPECT_EQ(shown.rows.at(1).cells, cell_row(run, 1).cells);
  EXPECT_FALSE(report::cells_text(shown, 80).empty());
  EXPECT_NO_THROW(Json::parse(report::cells_json(shown)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShowCells, ::testing::ValuesIn(cell_kinds()),
                         [](const auto& kind) { return std::string(writing_command(kind.param)); });

TEST(ShowCka, TellsOfDepthsAndStages) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  write_cells(path, cell_run(FileSchema::kCka));
  const ResultsView shown = read_view(path);
  const commands::CkaFindings findings = commands::findings_of(shown.beside);
  ASSERT_EQ(findings.matched.size(), 21U);
  EXPECT_EQ(findings.matched[6].depth, 0.3);  // 0.3 x 3 layers: 0.9
  EXPECT_EQ(findings.matched[6].layer_a, 1);
  EXPECT_EQ(findings.matched[6].cka, 1.0);
  ASSERT_TRUE(findings.stages.has_value());
  EXPECT_EQ(findings.stages->count, 1);
  EXPECT_NE(report::cells_text(shown, 80).find("stages of A: 1"), std::string::npos);
}

TEST(ShowCka, NamesTheLayersThatStagesEndWith) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  RunDescription run = cell_run(FileSchema::kCka, 8);
  auto store = open_run_store(path, run, {}, false);
  for (std::int64_t i = 0; i < 8; ++i) {
    ResultRow row = cell_row(run, i);
    row.cells[commands::cka_cell("adjacent_cka")] =
        i == 2 || i == 5 ? 0.3 : 0.95 + 0.001 * static_cast<double>(i);
    row.cells[commands::cka_cell("adjacent_cka_se")] = 0.01;
    store->add(std::move(row));
  }
  store->publish_file();
  const ResultsView shown = read_view(path);
  const commands::CkaFindings findings = commands::findings_of(shown.beside);
  EXPECT_EQ(findings.stages->count, 3);
  EXPECT_EQ(findings.stage_breaks, (std::vector<std::int32_t>{2, 5}));
  EXPECT_NE(report::cells_text(shown, 80).find("stages of A: 3 (breaks behind layers 2, 5)"),
            std::string::npos);
  EXPECT_EQ(Json::parse(report::cells_json(shown))["stages"]["breaks"], Json({2, 5}));
}

// Files of version 1.0 have no standard errors, and intervals that were drawn.
TEST(ShowCka, OlderFilesAreReadAndHaveNoStages) {
  const TestFolder folder;
  const std::string path = folder / "old.h5";
  RunDescription run = cell_run(FileSchema::kCka);
  run.optional_columns.clear();
  auto store = open_run_store(path, run, {}, false);
  for (std::int64_t i = 0; i < 4; ++i) {
    ResultRow row = cell_row(run, i);
    row.arrays[commands::cka_array("ci_low")] = row.arrays[commands::cka_array("ci_high")];
    store->add(std::move(row));
  }
  store->publish_file();
  EXPECT_TRUE(validate_file(path).empty());
  const ResultsView shown = read_view(path);
  const commands::CkaFindings findings = commands::findings_of(shown.beside);
  EXPECT_FALSE(findings.stages.has_value());
  EXPECT_EQ(findings.matched.size(), 21U);
  EXPECT_NE(report::cells_text(shown, 80).find("stages of A: not known"), std::string::npos);
  EXPECT_TRUE(Json::parse(report::cells_json(shown))["stages"].is_null());
  EXPECT_NO_THROW(report::export_file(path, "csv", folder / "old.csv"));
}

}  // namespace
}  // namespace vindex::results::testing::show_cells_test
