// Spectra of differences (`compare --delta`) and angles of subspaces (`--k`) through the program.
#include "compare_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace vindex::testing::compare_delta_cli_test {
namespace {

TEST_F(CompareTest, AChangeOfLowRankIsFoundInItsSpectrum) {
  std::vector<FloatTensor> b = attention(10);
  FloatTensor& query = b[0];  // 24 x 20
  for (std::size_t i = 0; i < 24; ++i) {
    for (std::size_t j = 0; j < 20; ++j) {
      const double change =
          0.5 * std::sin(1.0 + static_cast<double>(i)) * std::cos(2.0 * static_cast<double>(j)) +
          0.2 * std::cos(3.0 + static_cast<double>(i)) * std::sin(static_cast<double>(j));
      query.values[i * 20 + j] += static_cast<float>(change);
    }
  }
  const std::string a_path = model("a", attention(10)), b_path = model("b", b);
  const std::string out = compared(a_path, b_path, "out", {"--delta", "--k", "3"});
  const auto number = [&](const std::string& name, std::size_t row) {
    return read_numbers(out, "/pair/" + name).at(row);
  };
  ASSERT_EQ(read_strings(out, "/pair/role")[0], "q_proj");
  const double norm = number("relative_error", 0) * number("norm_a", 0);
  EXPECT_NEAR(number("delta_frobenius_norm", 0), norm, 1e-6 * norm);
  // Two directions, and rounding below them.
  EXPECT_EQ(number("delta_numerical_rank", 0), 2);
  EXPECT_GE(number("delta_rank_gd", 0), 2);
  EXPECT_GE(number("delta_rank_edge", 0), number("delta_rank_gd", 0));
  EXPECT_NEAR(read_numbers(out, "/pair/delta_var_at_k").at(0, 1), 1.0, 1e-9);
  EXPECT_LT(number("delta_effective_rank", 0), 2.0);
  EXPECT_GT(number("delta_effective_rank_null", 0), 10.0);
  const double stable = number("delta_stable_rank", 0);
  EXPECT_NEAR(number("delta_spectral_norm", 0) * std::sqrt(stable), norm, 1e-6 * norm);
  EXPECT_NEAR(
      number("delta_spectral_norm_null", 0) * std::sqrt(number("delta_stable_rank_null", 0)), norm,
      1e-6 * norm);
  EXPECT_EQ(number("overlap_right_null", 0), 3.0 / 20.0);
  EXPECT_EQ(number("overlap_left_null", 0), 3.0 / 24.0);
  EXPECT_LT(number("overlap_right", 0), 1.0);
  const NumberTable angles = read_numbers(out, "/pair/angles_right");
  ASSERT_EQ(angles.columns, 3U);
  double cosines = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(i == 0 || angles.at(0, i - 1) <= angles.at(0, i));
    cosines += std::pow(std::cos(angles.at(0, i) * 3.14159265358979 / 180.0), 2) / 3.0;
  }
  EXPECT_NEAR(number("overlap_right", 0), cosines, 1e-9);
  // What did not change has no change.
  EXPECT_EQ(number("same_bits", 1), 1);
  EXPECT_EQ(number("delta_spectral_norm", 1), 0.0);
  EXPECT_EQ(number("delta_numerical_rank", 1), 0);
  EXPECT_EQ(number("delta_rank_gd", 1), -1);
  EXPECT_TRUE(std::isnan(number("delta_stable_rank", 1)));
  EXPECT_NE(read_strings(out, "/pair/reason")[1].find("delta: zero matrix"), std::string::npos);
  EXPECT_NEAR(number("overlap_left", 1), 1.0, 1e-12);
  EXPECT_NEAR(read_numbers(out, "/pair/angles_left").at(1, 2), 0.0, 1e-10);
  // It is shown, and as JSON.
  const ProgramResult shown = run({"show", out});
  EXPECT_NE(shown.out.find("B - A"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("overlap of the top 3 directions"), std::string::npos) << shown.out;
  std::istringstream lines(shown.out);
  std::string names_of_files;
  std::getline(lines, names_of_files);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  const auto json = nlohmann::json::parse(run({"show", out, "--json"}).out);
  EXPECT_EQ(json["k"], 3);
  EXPECT_EQ(json["groups"][0]["changed"], 1);
  EXPECT_EQ(json["groups"][0]["delta_rank_gd"], number("delta_rank_gd", 0));
  EXPECT_EQ(json["groups"][1]["changed"], 0);
  EXPECT_TRUE(json["groups"][1]["delta_rank_gd"].is_null());
}

TEST_F(CompareTest, WhatIsAskedForIsPartOfTheRun) {
  const std::string a = model("a", attention(1)), b = model("b", attention(2));
  const std::string out = compared(a, b, "out", {"--delta"});
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--delta", "--k", "2"}, {"--delta", "--mode", "strict"}}) {
    std::vector<std::string> arguments = {"compare", a, b, "-o", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult other = run(arguments);
    EXPECT_EQ(other.exit_code, 78) << other.err;
    EXPECT_NE(other.err.find("belongs to another run"), std::string::npos) << other.err;
  }
  EXPECT_EQ(run({"compare", a, b, "-o", out, "--k", "0"}).exit_code, 64);
  EXPECT_EQ(run({"compare", a, b, "-o", out, "--k", "257"}).exit_code, 64);
  const ProgramResult host = run({"compare", a, b, "-o", folder_.file("host.h5")});
  EXPECT_NE(host.err.find("comparing needs no device"), std::string::npos) << host.err;
}

TEST_F(CompareTest, SubspacesThatAreNotThereSayWhy) {
  FloatTensor zero = noise_tensor("model.layers.0.self_attn.q_proj.weight", {24, 20}, 1);
  std::fill(zero.values.begin(), zero.values.end(), 0.0F);
  FloatTensor equal = noise_tensor("model.layers.0.self_attn.o_proj.weight", {20, 20}, 1);
  for (std::size_t i = 0; i < equal.values.size(); ++i) {
    equal.values[i] = i % 21 == 0 ? 1.0F : 0.0F;
  }
  FloatTensor small = noise_tensor("model.layers.0.self_attn.k_proj.weight", {2, 20}, 3);
  FloatTensor other_small = noise_tensor("model.layers.0.self_attn.k_proj.weight", {2, 20}, 4);
  FloatTensor noise_q = noise_tensor("model.layers.0.self_attn.q_proj.weight", {24, 20}, 5);
  FloatTensor noise_o = noise_tensor("model.layers.0.self_attn.o_proj.weight", {20, 20}, 6);
  const std::string out =
      compared(model("a", {zero, equal, small}), model("b", {noise_q, noise_o, other_small}), "out",
               {"--k", "4"});
  const auto roles = read_strings(out, "/pair/role");
  const auto reasons = read_strings(out, "/pair/reason");
  const NumberTable overlap = read_numbers(out, "/pair/overlap_right");
  for (std::size_t i = 0; i < roles.size(); ++i) {
    EXPECT_TRUE(std::isnan(overlap.at(i))) << roles[i];
    // Chance has an overlap wherever there are K directions: never more than all of it.
    for (const char* side : {"right", "left"}) {
      const std::string name = std::string("/pair/overlap_") + side + "_null";
      const double null = read_numbers(out, name).at(i), sd = read_numbers(out, name + "_sd").at(i);
      EXPECT_EQ(std::isnan(null), roles[i] == "k_proj") << name;
      EXPECT_EQ(std::isnan(sd), roles[i] == "k_proj") << name;
      EXPECT_FALSE(null > 1.0) << name;
    }
    const char* why = roles[i] == "q_proj" ? "no definite top 4 of A: 0 singular values above zero"
                      : roles[i] == "o_proj" ? "no definite top 4 of A: values 4 and 5 differ by"
                                             : "no top 4: its short side is 2";
    EXPECT_NE(reasons[i].find(why), std::string::npos) << reasons[i];
  }
}

TEST_F(CompareTest, LowRankMatricesKeepNobodyFromTheirAngles) {
  FloatTensor constant = noise_tensor("model.layers.0.self_attn.q_proj.weight", {24, 20}, 1);
  std::fill(constant.values.begin(), constant.values.end(), 0.5F);
  FloatTensor rank_two = noise_tensor("model.layers.0.self_attn.k_proj.weight", {16, 20}, 2);
  for (std::size_t i = 0; i < rank_two.values.size(); ++i) {
    const std::size_t row = i / 20, col = i % 20;  // small whole numbers: no rounding adds a rank
    rank_two.values[i] = static_cast<float>((row % 3) * (col % 5) + row * col);
  }
  const FloatTensor noise = noise_tensor("model.layers.0.self_attn.v_proj.weight", {16, 20}, 3);
  FloatTensor diagonal = noise_tensor("model.layers.0.self_attn.o_proj.weight", {20, 20}, 4);
  for (std::size_t i = 0; i < diagonal.values.size(); ++i) {
    diagonal.values[i] = i % 21 == 0 ? 1.0F : 0.0F;
  }
  const std::string path = model("low", {constant, rank_two, noise, diagonal});
  const std::map<std::string, std::map<std::string, bool>> defined = {
      {"1", {{"q_proj", true}, {"k_proj", true}, {"v_proj", true}, {"o_proj", true}}},
      {"2", {{"q_proj", false}, {"k_proj", true}, {"v_proj", true}, {"o_proj", true}}},
      {"4", {{"q_proj", false}, {"k_proj", false}, {"v_proj", true}, {"o_proj", true}}}};
  for (const auto& [k, of_role] : defined) {
    const std::string out = compared(path, path, "low" + k, {"--k", k, "--delta"});
    const auto roles = read_strings(out, "/pair/role");
    const auto reasons = read_strings(out, "/pair/reason");
    ASSERT_EQ(roles.size(), 4U);
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const double overlap = read_numbers(out, "/pair/overlap_left").at(i);
      const std::string which = roles[i] + " at " + k + ": " + reasons[i];
      if (of_role.at(roles[i])) {
        EXPECT_NEAR(overlap, 1.0, 1e-9) << which;
        EXPECT_NEAR(read_numbers(out, "/pair/angles_right").at(i, 0), 0.0, 1e-5) << which;
        EXPECT_EQ(reasons[i].find("no definite"), std::string::npos) << which;
      } else {
        EXPECT_TRUE(std::isnan(overlap)) << which;
        const char* told = roles[i] == "q_proj" ? "of A: 1 singular value distinct from zero"
                                                : "of A: 2 singular values distinct from zero";
        EXPECT_NE(reasons[i].find(told), std::string::npos) << which;
      }
    }
  }
}

TEST_F(CompareTest, TheTableTellsTheRankOfAnAdapter) {
  std::vector<FloatTensor> b = attention(10);
  for (std::size_t i = 0; i < 24; ++i) {
    for (std::size_t j = 0; j < 20; ++j) {
      for (std::size_t r = 1; r <= 4;
           ++r) {  // four directions of one size: effective rank 4 and less
        b[0].values[i * 20 + j] +=
            static_cast<float>(0.3 * std::sin(static_cast<double>(r * (i + 1))) *
                               std::cos(static_cast<double>(r * r * (j + 1))));
      }
    }
  }
  const std::string out = compared(model("a", attention(10)), model("b", b), "out", {"--delta"});
  const std::string table = run({"show", out}).out;
  std::istringstream lines(table.substr(table.find("\nB - A\n") + 1));
  std::string line, heading;
  std::getline(lines, line);
  std::getline(lines, heading);
  EXPECT_NE(heading.find(" rank"), std::string::npos) << heading;
  std::getline(lines, line);
  std::istringstream words(line);
  std::string block, role, encoding_a, encoding_b, changed, rank, noise;
  words >> block >> role >> encoding_a >> encoding_b >> changed >> rank >> noise;
  EXPECT_EQ(role, "q_proj");
  EXPECT_EQ(encoding_a, "F32");
  EXPECT_EQ(encoding_b, "F32");
  EXPECT_EQ(changed, "1");
  EXPECT_EQ(rank, "4");
  EXPECT_EQ(noise, "20");
  const auto json = nlohmann::json::parse(run({"show", out, "--json"}).out);
  EXPECT_EQ(json["groups"][0]["delta_numerical_rank"], 4);
  EXPECT_EQ(json["groups"][0]["delta_numerical_rank_null"], 20);
}

}  // namespace
}  // namespace vindex::testing::compare_delta_cli_test
