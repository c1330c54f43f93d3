// `vindex organ diff` on real weights: quantisations of one model, splits, reports, exit codes.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <string>

namespace vindex::organ_diff_cli_test {
namespace {

class OrganDiffTest : public testing::ProgramTest {
 protected:
  const std::string q4_ = data_ + "/gguf/full/kjv-moe-Q4_K_M.gguf";
  const std::string q8_ = data_ + "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf";
};

TEST_F(OrganDiffTest, QuantisationsOfOneModel) {
  VINDEX_NEEDS(q4_);
  const auto result = run({"organ", "diff", q4_, q8_, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["same"], false);
  ASSERT_EQ(json["keys"].size(), 1U);
  EXPECT_EQ(json["keys"][0]["name"], "general.file_type");
  EXPECT_EQ(json["tensors"].size(), 70U);
  int same = 0;
  for (const auto& tensor : json["tensors"]) {
    same += tensor["state"] == "same-bytes" ? 1 : 0;
    EXPECT_GT(tensor["cosine"].get<double>(), 0.99) << tensor["name"];
    EXPECT_EQ(tensor["state"] == "same-bytes", tensor["a"]["type"] == tensor["b"]["type"]);
  }
  EXPECT_EQ(same, 23);  // norms, routers and their biases are F32 in both
}

TEST_F(OrganDiffTest, TextFitsEightyColumns) {
  VINDEX_NEEDS(q4_);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--by-layer"}, {"--top", "70"}}) {
    std::vector<std::string> arguments = {"organ", "diff", q4_, q8_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(data_) == std::string::npos) {  // names stay whole
        EXPECT_LE(line.size(), 80U) << line;
      }
    }
    EXPECT_NE(result.out.find("different"), std::string::npos);
  }
}

TEST_F(OrganDiffTest, ExitCodes) {
  VINDEX_NEEDS(q4_);
  EXPECT_EQ(run({"organ", "diff", q4_, q4_, "--exit-code"}).exit_code, 0);
  const auto different = run({"-q", "organ", "diff", q4_, q8_, "--exit-code"});
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_EQ(different.out, "");
  EXPECT_NE(different.err.find("E-DIFFERENT"), std::string::npos);
  EXPECT_EQ(run({"organ", "diff", q4_, folder_.file("absent.gguf")}).exit_code, 66);
  EXPECT_EQ(run({"organ", "diff", q4_, q8_, "--tensors", "("}).exit_code, 64);
  EXPECT_EQ(run({"organ", "diff", q4_}).exit_code, 64);
  std::ofstream(folder_.file("bad.gguf")) << "GGUF";
  EXPECT_EQ(run({"organ", "diff", q4_, folder_.file("bad.gguf")}).exit_code, 65);
}

TEST_F(OrganDiffTest, AReportReplacesOnlyAReport) {
  VINDEX_NEEDS(q4_);
  const std::string report = folder_.file("report.json");
  must({"organ", "diff", q4_, q8_, "--report", report});
  const std::string first = testing::file_text(report);
  EXPECT_EQ(nlohmann::json::parse(first)["schema"], "organ-diff/1");
  must({"organ", "diff", q4_, q8_, "--report", report});
  EXPECT_EQ(testing::file_text(report), first);
  const std::string config = folder_.file("config.json");
  std::ofstream(config) << "{}";
  const auto refused = run({"organ", "diff", q4_, q8_, "--report", config});
  EXPECT_EQ(refused.exit_code, 73);
  EXPECT_NE(refused.err.find("E-OUTPUT-EXISTS"), std::string::npos);
  EXPECT_EQ(testing::file_text(config), "{}");
}

}  // namespace
}  // namespace vindex::organ_diff_cli_test
