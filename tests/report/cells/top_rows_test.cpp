// `vindex show --top N --by COLUMN` of files whose rows are cells: the right rows, with their
// nulls.
#include "core/text/text_table.hpp"
#include "report/cells/cells_json.hpp"
#include "report/cells/cells_text.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>
#include <string>

namespace vindex::results::testing::show_top_test {
namespace {

using Json = nlohmann::json;

class ShowTop : public ::testing::TestWithParam<FileSchema> {
 protected:
  ShowTop() : path_(folder_ / "out.h5") { write_cells(path_, cell_run(GetParam())); }
  TestFolder folder_;
  std::string path_;
};

TEST_P(ShowTop, EveryColumnOfOneNumberSortsRows) {
  const ResultsView all = read_view(path_);
  const Json document = Json::parse(report::cells_json(all));
  std::size_t columns = 0;
  for (const auto& [name, value] : document["rows"][0].items()) {
    if (!value.is_number() || name == "layer" || name == "rows" || name == "cols") {
      continue;
    }
    ++columns;
    for (const bool is_ascending : {false, true}) {
      ResultsView shown = all;
      report::TopRows top{.count = 3, .by = name, .is_ascending = is_ascending};
      report::keep_top(shown, top);
      const Json chosen = Json::parse(report::cells_json(shown, top));
      EXPECT_EQ(chosen["by"], name);
      ASSERT_LE(chosen["rows"].size(), 3U);
      for (std::size_t i = 1; i < chosen["rows"].size(); ++i) {
        const double before = chosen["rows"][i - 1][name];
        const double behind = chosen["rows"][i][name];
        EXPECT_TRUE(is_ascending ? before <= behind : before >= behind) << name;
      }
      // The column is on the screen, whatever else gives way.
      std::istringstream lines(report::cells_text(shown, 80, top));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(display_width(line), 80U) << line;
      }
    }
  }
  EXPECT_GE(columns, 3U);
}

TEST_P(ShowTop, ByDefaultTheColumnOfTheKind) {
  ResultsView shown = read_view(path_);
  report::TopRows top{.count = 2};
  report::keep_top(shown, top);
  EXPECT_FALSE(top.by.empty());
  EXPECT_EQ(shown.rows.size(), 2U);
  EXPECT_NE(report::cells_text(shown, 80, top).find("by " + top.by), std::string::npos);
}

TEST_P(ShowTop, UnknownColumnsAreNamedWithTheNearest) {
  ResultsView shown = read_view(path_);
  report::TopRows top{.count = 2};
  report::keep_top(shown, top);
  report::TopRows wrong{.count = 2, .by = top.by + "x"};
  try {
    report::keep_top(shown, wrong);
    FAIL() << "no refusal";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.id(), "E-COLUMN");
    EXPECT_NE(std::string(error.what()).find(top.by), std::string::npos) << error.what();
  }
}

// Dropped or not, every `noise` stands behind a statistic, and none of them without.
TEST_P(ShowTop, AStatisticIsLeftOutWithItsNull) {
  const ResultsView shown = read_view(path_);
  const Summary summary = report::summary_of(shown);
  for (std::size_t width = 40; width <= 200; width += 5) {
    if (summary.has_own_tables) {
      break;
    }
    std::istringstream lines(report::cells_text(shown, width));
    std::string line;
    std::getline(lines, line);
    for (std::size_t i = 0; i + 1 < summary.columns.size(); ++i) {
      const bool has_null = !summary.columns[i].is_null && summary.columns[i + 1].is_null;
      const std::string heading = " " + summary.columns[i].heading + " ";
      const std::size_t at = (line + " ").find(heading);
      if (!has_null || at == std::string::npos) {
        continue;
      }
      const bool is_known = !std::isnan(summary.columns[i + 1].value(shown.rows.front()));
      const std::size_t next = line.find_first_not_of(' ', at + heading.size() - 1);
      EXPECT_TRUE(!is_known || (next != std::string::npos &&
                                line.compare(next, summary.columns[i + 1].heading.size(),
                                             summary.columns[i + 1].heading) == 0))
          << width << ": " << line;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShowTop, ::testing::ValuesIn(cell_kinds()),
                         [](const auto& kind) { return std::string(writing_command(kind.param)); });

}  // namespace
}  // namespace vindex::results::testing::show_top_test
