// The command show through the program: tables, filters, rankings, JSON, states of a run, refusals,
// and the table that measure ends with.
#include "tests/support/file_content.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vindex::testing::show_cli_test {
namespace {

/// numpy's default, by hand.
double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - std::floor(at)) * (values[above] - values[below]);
}

class ShowCliTest : public ProgramTest {
 protected:
  /// The mini model's layers 1 and 2, with sign flips.
  std::string mini() {
    must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
    return measured(folder_.file("mini"), "mini", {"--layers", "1-2", "--null", "signflip"});
  }
  nlohmann::json json(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "show");
    arguments.emplace_back("--json");
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return nlohmann::json::parse(result.out);
  }
};

TEST_F(ShowCliTest, TheTableAgainAnyMetricAndK) {
  const std::string file = mini();
  const ProgramResult again = run({"show", file});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  // The same command with nothing left to do ends with the table; show has two lines above it.
  const ProgramResult end = run({"measure", folder_.file("mini"), "-o", file, "--layers", "1-2",
                                 "--null", "signflip", "--progress", "none"});
  ASSERT_EQ(end.exit_code, 0) << end.err;
  const std::string table = again.out.substr(again.out.find("layer "));
  for (const char* heading : {" var@k", " noise", " diff", " ratio", " flip"}) {
    EXPECT_NE(lines_of(table).front().find(heading), std::string::npos) << table;
  }
  EXPECT_EQ(end.out.rfind(table, 0), 0U) << end.out << again.out;
  const ProgramResult json_end = run({"measure", folder_.file("mini"), "-o", file, "--layers",
                                      "1-2", "--null", "signflip", "--progress", "none", "--json"});
  ASSERT_EQ(json_end.exit_code, 0) << json_end.err;
  EXPECT_EQ(json_end.out, run({"show", file, "--json"}).out);
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{},
                                             {"--metric", "condition_number"},
                                             {"--experts"},
                                             {"--metric", "participation_ratio"}}) {
    std::vector<std::string> arguments = {"show", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& line : lines_of(result.out.substr(result.out.find('\n') + 1))) {
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
  EXPECT_NE(run({"show", file, "--metric", "gini"}).out.find("gini: "), std::string::npos);
}

TEST_F(ShowCliTest, JsonIsWhatTheColumnsGive) {
  const std::string file = mini();
  const auto document = json({file, "--metric", "var_at_k", "--k", "8", "--role", "down_proj",
                              "--block", "routed_expert", "--layer", "2"});
  EXPECT_EQ(document["schema"], "vindex-show/1");
  EXPECT_EQ(document["k"], 8);
  ASSERT_EQ(document["groups"].size(), 1U);
  const auto& group = document["groups"][0];
  const NumberTable flip = read_numbers(file, "/matrix/var_at_k_signflip");
  const std::size_t k = column_of_k(file, 8);
  const std::vector<MeasuredRow> rows = read_rows(file);
  std::vector<double> values, ratios, flips;
  double null = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].layer == 2 && rows[i].block == "routed_expert" && rows[i].role == "down_proj") {
      values.push_back(rows[i].var_at_k[k]);
      null = rows[i].var_at_k_null[k];
      ratios.push_back(values.back() / null);
      flips.push_back(flip.at(i, k));
    }
  }
  ASSERT_EQ(values.size(), 16U);
  EXPECT_EQ(group["count"], 16);
  EXPECT_NEAR(group["median"].get<double>(), quantile_of(values, 0.5), 1e-15);
  EXPECT_NEAR(group["q25"].get<double>(), quantile_of(values, 0.25), 1e-15);
  EXPECT_NEAR(group["q75"].get<double>(), quantile_of(values, 0.75), 1e-15);
  EXPECT_EQ(group["null"].get<double>(), null);
  EXPECT_NEAR(group["ratio"].get<double>(), quantile_of(ratios, 0.5), 1e-14);
  EXPECT_NEAR(group["signflip"].get<double>(), quantile_of(flips, 0.5), 1e-15);
  // The statistics of /layer/ are the same numbers.
  const auto ranks = json({file, "--metric", "effective_rank"});
  const NumberTable median = read_numbers(file, "/layer/effective_rank_median");
  ASSERT_EQ(ranks["groups"].size(), median.rows);
  for (std::size_t i = 0; i < median.rows; ++i) {
    EXPECT_EQ(ranks["groups"][i]["median"].get<double>(), median.at(i));
  }
}

TEST_F(ShowCliTest, FiltersRankingsAndWhoStandsOut) {
  const std::string file = mini();
  const auto top = json({file, "--top", "3", "--by", "sigma_min", "--ascending"});
  ASSERT_EQ(top["matrices"].size(), 3U);
  const NumberTable smallest = read_numbers(file, "/matrix/sigma_min");
  EXPECT_EQ(top["matrices"][0]["by"].get<double>(),
            *std::min_element(smallest.values.begin(), smallest.values.end()));
  const auto experts = json({file, "--experts", "--layers", "1", "--roles", "gate_proj"});
  ASSERT_EQ(experts["groups"].size(), 1U);
  // Planted: gate_proj of layer 1 is noise, with one expert apart.
  EXPECT_EQ(experts["groups"][0]["count"], 16);
  const auto& highest = experts["groups"][0]["experts"].back();
  EXPECT_EQ(highest["far"], true);
  EXPECT_GT(highest["robust_z"].get<double>(), 3.5);
  const std::string text = run({"show", file, "--top", "2"}).out;
  EXPECT_EQ(lines_of(text).size(), 6U) << text;
  // Names go whole to another program.
  EXPECT_EQ(text.find("..."), std::string::npos) << text;
}

TEST_F(ShowCliTest, ShapesTooSmallForVarAt64GetAKThatTells) {
  must({"synth", "layer:4x48x40:bf16", "-o", folder_.file("small")});
  const std::string file = measured(folder_.file("small"), "small");
  const auto document = json({file});
  EXPECT_LE(document["k"].get<int>(), 16);
  for (const auto& group : document["groups"]) {
    EXPECT_LT(group["null"].get<double>(), 0.7 + 1e-12);
    EXPECT_LT(group["median"].get<double>(), 1.0);
  }
  const ProgramResult end =
      run({"measure", folder_.file("small"), "-o", file, "--progress", "none"});
  EXPECT_EQ(end.out.find("1.0000"), std::string::npos) << end.out;
  EXPECT_NE(end.out.find("var@"), std::string::npos);
  const ProgramResult none = run({"show", file, "--k", "64"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.out.find("1.0000"), std::string::npos) << none.out;
}

TEST_F(ShowCliTest, Stories260KSaysSomethingInEveryRow) {
  const std::string model = data_ + "/stories260k/stories260K.gguf";
  VINDEX_NEEDS(model);
  const std::string file = measured(model, "stories");
  const ProgramResult end = run({"measure", model, "-o", file, "--progress", "none"});
  EXPECT_EQ(end.out.find("1.0000"), std::string::npos) << end.out;
  const auto document = json({file});
  EXPECT_EQ(document["k"], 8);
  EXPECT_GE(document["groups"].size(), 36U);
  for (const auto& group : document["groups"]) {
    EXPECT_FALSE(group["ratio"].is_null()) << group;
  }
}

TEST_F(ShowCliTest, APartialFileIsShown) {
  must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
  const std::string out = folder_.file("part.h5");
  must({"measure", folder_.file("mini"), "-o", out, "--blocks", "router", "--worker", "0/2"});
  const auto document = json({out});
  EXPECT_EQ(document["state"], "running");
  EXPECT_EQ(document["matrices_total"], 3);
  EXPECT_GE(document["matrices_measured"], 1);
  EXPECT_LT(document["matrices_measured"], 3);
  EXPECT_EQ(document["groups"].size(), 3U);
}

TEST_F(ShowCliTest, RefusalsAreOneLineWithAnId) {
  must({"synth", "layer:4x48x40:bf16", "-o", folder_.file("small")});
  const std::string file = measured(folder_.file("small"), "small");
  std::filesystem::copy_file(file, folder_.file("cut.h5"));
  std::filesystem::resize_file(folder_.file("cut.h5"), std::filesystem::file_size(file) / 3);
  std::ofstream(folder_.file("text.h5")) << "no results";
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* says;
  };
  for (const Case& one : std::vector<Case>{
           {{folder_.file("absent.h5")}, 66, "E-RESULTS-MISSING"},
           {{folder_.file("cut.h5")}, 65, "E-RESULTS-"},
           {{folder_.file("text.h5")}, 65, "E-RESULTS-"},
           {{file, "--metric", "stabel_rank"}, 64, "did you mean stable_rank?"},
           {{file, "--k", "7"}, 64, "E-K"},
           {{file, "--k", "x"}, 64, "E-USAGE"},
           {{file, "--layer", "9"}, 64, "there are layers 1"},
           {{file, "--block", "routr"}, 64, "E-SELECTION"},
           {{file, "--top", "0"}, 64, "E-USAGE"},
           {{file, "--top", "3", "--experts"}, 64, "E-USAGE"},
           {{file, "--by", "ratio"}, 64, "--top"},
           {{file, "--top", "3", "--by", "z"}, 64, "has no z in this file"},
       }) {
    std::vector<std::string> arguments = {"show"};
    arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(one.says), std::string::npos) << result.err;
  }
}

TEST_F(ShowCliTest, HelpStartsWithExamples) {
  const ProgramResult help = run({"show", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LT(help.out.find("Examples:"), help.out.find("Options:"));
  EXPECT_NE(run({"--help"}).out.find("  show  "), std::string::npos);
}

}  // namespace
}  // namespace vindex::testing::show_cli_test
