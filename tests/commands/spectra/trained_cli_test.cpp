// Layers of the kind `trained` through the program: what truth.json says against LAPACK on the
// weights that `decode` writes, and what an encoding leaves of the condition.
#include "tests/support/program/program_fixture.hpp"
#include "tests/support/singular_values.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace vindex::testing::trained_cli_test {
namespace {

class TrainedCliTest : public ProgramTest {
 protected:
  nlohmann::json truth_of(const std::string& spec) {
    must({"synth", spec, "-o", folder_.file("layer"), "-q"});
    return nlohmann::json::parse(file_text(folder_.file("layer") + "/truth.json")).at("tensors");
  }
  std::vector<double> values_of(const nlohmann::json& row) {
    return singular_values(decoded(folder_.file("layer"), row.at("tensor").get<std::string>()),
                           row.at("rows").get<std::int64_t>(), row.at("cols").get<std::int64_t>());
  }
};

double norm_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    square += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return std::sqrt(square);
}

TEST_F(TrainedCliTest, SquareMatricesOfEveryRoleKeepTheirTailInBf16) {
  const auto truth = truth_of("layer:3x256x256:bf16:trained");
  ASSERT_EQ(truth.size(), 9U);
  std::set<std::string> roles;
  for (const auto& row : truth) {
    SCOPED_TRACE(row.at("tensor"));
    roles.insert(row.at("tensor").get<std::string>().substr(27));
    EXPECT_EQ(row.at("kind"), "trained");
    const auto planted = row.at("singular_values").get<std::vector<double>>();
    const double condition = row.at("parameters").at("condition");
    EXPECT_GT(condition, 999.0);
    EXPECT_LT(condition, 1e5);
    EXPECT_NEAR(planted.front() / planted.back() / condition, 1.0, 1e-12);
    const auto found = values_of(row);
    ASSERT_EQ(found.size(), planted.size());
    EXPECT_LT(norm_of_difference(found, planted), row.at("error_norm").get<double>());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], planted[i], 2e-3 * planted[0]) << i;
    }
    EXPECT_GT(found.front() / found.back(), 0.5 * condition);
    EXPECT_LT(found.front() / found.back(), 1e5);
  }
  EXPECT_EQ(roles, (std::set<std::string>{
                       "0.gate_proj.weight", "0.up_proj.weight", "0.down_proj.weight",
                       "1.gate_proj.weight", "1.up_proj.weight", "1.down_proj.weight",
                       "2.gate_proj.weight", "2.up_proj.weight", "2.down_proj.weight"}));
}

// Rounding adds noise of relative size e. In a tall matrix that noise has a smallest singular value
// of about e norm_F(W) sqrt(1/p - 1/n), under which nothing survives (docs/commands/synth.md).
TEST_F(TrainedCliTest, TallMatricesKeepWhatTheEncodingLeaves) {
  for (const std::string encoding : {"bf16", "fp8", "int4"}) {
    const auto truth = truth_of("layer:1x896x256:" + encoding + ":trained");
    ASSERT_EQ(truth.size(), 3U);
    for (const auto& row : truth) {
      SCOPED_TRACE(encoding + " " + row.at("tensor").get<std::string>());
      const bool is_down = row.at("tensor").get<std::string>().find("down") != std::string::npos;
      EXPECT_EQ(row.at("rows"), is_down ? 896 : 256);
      const auto planted = row.at("singular_values").get<std::vector<double>>();
      const auto found = values_of(row);
      EXPECT_LT(norm_of_difference(found, planted), row.at("error_norm").get<double>());
      const double floor =
          row.at("error_norm").get<double>() * std::sqrt(1.0 / 256.0 - 1.0 / 896.0);
      EXPECT_NEAR(found.back() / std::hypot(planted.back(), floor), 1.0, 0.2);
      if (encoding == "bf16") {
        EXPECT_GT(found.front() / found.back(), 1e3);
      }
    }
    std::filesystem::remove_all(folder_.file("layer"));
  }
}

TEST_F(TrainedCliTest, LongSpectraAreGivenByBothEnds) {
  const auto truth = truth_of("layer:1x600x520:bf16:trained");
  const auto first = truth.at(2).at("singular_values").get<std::vector<double>>();
  const auto last = truth.at(2).at("last_singular_values").get<std::vector<double>>();
  EXPECT_EQ(truth.at(2).at("singular_values_total"), 520);
  EXPECT_EQ(first.size(), 64U);
  ASSERT_EQ(last.size(), 64U);
  const double condition = truth.at(2).at("parameters").at("condition");
  EXPECT_NEAR(first.front() / last.back() / condition, 1.0, 1e-12);
  EXPECT_LT(last.front(), first.back());
}

TEST_F(TrainedCliTest, GateAndUpOfInt4NeedWholeGroupsToo) {
  const ProgramResult result =
      run({"synth", "layer:1x100x64:int4:trained", "-o", folder_.file("layer")});
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_NE(result.err.find("64 x 100"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace vindex::testing::trained_cli_test
