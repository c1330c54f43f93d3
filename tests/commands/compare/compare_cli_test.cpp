// Two models through the command compare: pairs, resume, workers, streaming, hostile inputs, and
// what the other commands say of its files.
#include "compare_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <map>
#include <signal.h>
#include <sstream>
#include <thread>

namespace vindex::testing::compare_cli_test {
namespace {

constexpr double kMeasured = 0, kNotFinite = 2;

TEST_F(CompareTest, AModelIsItself) {
  must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
  const std::string out = compared(folder_.file("mini"), folder_.file("mini"), "same");
  const NumberTable same = read_numbers(out, "/pair/same_bits");
  const NumberTable cosine = read_numbers(out, "/pair/cosine");
  const NumberTable error = read_numbers(out, "/pair/relative_error");
  ASSERT_GT(same.rows, 100U);
  for (std::size_t i = 0; i < same.rows; ++i) {
    EXPECT_EQ(same.at(i), 1.0);
    EXPECT_EQ(cosine.at(i), 1.0);
    EXPECT_EQ(error.at(i), 0.0);
  }
  EXPECT_EQ(read_strings(out, "/pair/tensor_a"), read_strings(out, "/pair/tensor_b"));
  EXPECT_TRUE(read_strings(out, "/unpaired/tensor").empty());
}

TEST_F(CompareTest, ProgressCountsPairs) {
  const std::string a = model("a", attention(10));
  const ProgramResult result =
      run({"compare", a, a, "-o", folder_.file("out.h5"), "--progress", "plain"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("4/4 pairs  100%"), std::string::npos) << result.err;
}

TEST_F(CompareTest, NumbersAreThoseOfTheDefinitions) {
  std::vector<FloatTensor> b = attention(10);
  double inner = 0, aa = 0, bb = 0, dd = 0, most = 0;
  const std::vector<FloatTensor> a = attention(10);
  for (std::size_t i = 0; i < b[0].values.size(); ++i) {
    b[0].values[i] += i % 3 == 0 ? 0.01F : -0.002F;
    const double x = a[0].values[i], y = b[0].values[i];
    inner += x * y;
    aa += x * x;
    bb += y * y;
    dd += (y - x) * (y - x);
    most = std::max(most, std::abs(y - x));
  }
  const std::string out = compared(model("a", a), model("b", b), "out");
  ASSERT_EQ(read_strings(out, "/pair/role")[0], "q_proj");
  EXPECT_NEAR(read_numbers(out, "/pair/cosine").at(0), inner / std::sqrt(aa * bb), 1e-14);
  EXPECT_NEAR(read_numbers(out, "/pair/norm_a").at(0), std::sqrt(aa), 1e-13);
  EXPECT_NEAR(read_numbers(out, "/pair/norm_b").at(0), std::sqrt(bb), 1e-13);
  EXPECT_NEAR(read_numbers(out, "/pair/relative_error").at(0), std::sqrt(dd / aa), 1e-14);
  EXPECT_EQ(read_numbers(out, "/pair/max_abs_difference").at(0), most);
  EXPECT_EQ(read_numbers(out, "/pair/cosine_null_sd").at(0), 1.0 / std::sqrt(480.0));
  EXPECT_EQ(read_numbers(out, "/pair/same_bits").at(0), 0.0);
  EXPECT_EQ(read_numbers(out, "/pair/same_bits").at(1), 1.0);
}

TEST_F(CompareTest, SpectraOfBothStandSideBySide) {
  const std::string a = model("a", attention(1));
  std::vector<FloatTensor> changed = attention(1);
  for (float& value : changed[0].values) {
    value *= 2.0F;
  }
  const std::string b = model("b", changed);
  const std::string spectra_a = measured(a, "spectra_a");
  const std::string spectra_b = measured(b, "spectra_b");
  const std::string out =
      compared(a, b, "out", {"--spectra-a", spectra_a, "--spectra-b", spectra_b});
  const auto rows = read_rows(spectra_a);
  const double sigma = read_numbers(out, "/pair/spectral_norm_a").at(0);
  EXPECT_EQ(sigma, rows[0].sigma[0]);
  EXPECT_NEAR(read_numbers(out, "/pair/spectral_norm_difference").at(0), sigma, 1e-6 * sigma);
  EXPECT_NEAR(read_numbers(out, "/pair/stable_rank_difference").at(0), 0.0, 1e-5);
  EXPECT_GT(read_numbers(out, "/pair/stable_rank_null").at(0), 1.0);
  // sigma doubles as the weights do; and no two spectra are farther apart than their matrices.
  EXPECT_NEAR(read_numbers(out, "/pair/spectrum_difference").at(0), 1.0, 1e-6);
  EXPECT_EQ(read_numbers(out, "/pair/spectrum_difference").at(1), 0.0);
  EXPECT_EQ(read_numbers(out, "/pair/relative_error").at(0), 1.0);
  EXPECT_EQ(run({"compare", a, b, "-o", folder_.file("x.h5"), "--spectra-a", spectra_a}).exit_code,
            64);
  EXPECT_EQ(run({"compare", a, b, "-o", folder_.file("x.h5"), "--spectra-a", spectra_b,
                 "--spectra-b", spectra_a})
                .exit_code,
            78);
}

TEST_F(CompareTest, TroubleOfOneSideIsARowThatNamesIt) {
  std::vector<FloatTensor> a = attention(5);
  std::vector<FloatTensor> b = attention(5);
  b[1].values[3] = std::nanf("");
  a.push_back(noise_tensor("model.layers.0.mlp.up_proj.weight", {16, 20}, 9));
  b.push_back(noise_tensor("model.layers.0.mlp.up_proj.weight", {20, 16}, 9));
  const std::string out = compared(model("a", a), model("b", b), "out");
  const NumberTable status = read_numbers(out, "/pair/status");
  const auto reasons = read_strings(out, "/pair/reason");
  const auto roles = read_strings(out, "/pair/role");
  ASSERT_EQ(status.rows, 4U);
  for (std::size_t i = 0; i < status.rows; ++i) {
    const bool is_bad = roles[i] == "k_proj";
    EXPECT_EQ(status.at(i), is_bad ? kNotFinite : kMeasured);
    EXPECT_EQ(reasons[i], is_bad ? "weights that are not finite: 1 of B" : "");
    EXPECT_EQ(std::isnan(read_numbers(out, "/pair/cosine").at(i)), is_bad);
  }
  EXPECT_EQ(read_strings(out, "/unpaired/side"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read_strings(out, "/unpaired/reason"),
            (std::vector<std::string>{"it is 20 x 16 in B", "it is 16 x 20 in A"}));
}

TEST_F(CompareTest, AMissingShardIsRefusedBeforeAnyWork) {
  must({"synth", "kimi-k2-mini-bf16", "-o", folder_.file("mini")});
  std::filesystem::copy(folder_.file("mini"), folder_.file("cut"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.file("cut"))) {
    if (entry.path().extension() == ".safetensors") {
      std::filesystem::remove(entry.path());
      break;
    }
  }
  const ProgramResult result =
      run({"compare", folder_.file("mini"), folder_.file("cut"), "-o", folder_.file("out.h5")});
  EXPECT_EQ(result.exit_code, 66) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5.parts")));
}

TEST_F(CompareTest, NoPairAtAllIs65) {
  const std::string a = model("a", {noise_tensor("x.weight", {8, 6}, 1)});
  const std::string b = model("b", {noise_tensor("x.weight", {6, 8}, 1)});
  const ProgramResult result = run({"compare", a, b, "-o", folder_.file("out.h5")});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_NE(result.err.find("E-NO-PAIR"), std::string::npos) << result.err;
  EXPECT_EQ(run({"compare", a, a, "-o", folder_.file("out.h5"), "--map", "3-1:1"}).exit_code, 64);
  EXPECT_EQ(run({"compare", a, a, "-o", folder_.file("out.h5"), "--layers", "7"}).exit_code, 64);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
}

TEST_F(CompareTest, FilesOfAnotherKindAreToldApart) {
  const std::string a = model("a", attention(1));
  const std::string b = model("b", attention(2));
  const std::string pairs = compared(a, b, "pairs");
  const std::string spectra = measured(a, "spectra");
  // Neither command replaces the other's file.
  EXPECT_EQ(run({"compare", a, b, "-o", spectra}).exit_code, 73);
  EXPECT_EQ(run({"measure", a, "-o", pairs, "--restart"}).exit_code, 73);
  const ProgramResult exported =
      run({"export", pairs, "--format", "weightwatcher", "-o", folder_.file("x.csv")});
  EXPECT_EQ(exported.exit_code, 64);
  EXPECT_NE(exported.err.find("vindex compare"), std::string::npos) << exported.err;
  EXPECT_EQ(run({"merge", pairs, spectra, "-o", folder_.file("m.h5")}).exit_code, 78);
  EXPECT_EQ(run({"compare", a, b, "-o", folder_.file("y.h5"), "--spectra-a", pairs, "--spectra-b",
                 spectra})
                .exit_code,
            65);
  // Another model under the name of a file that is there.
  const ProgramResult other = run({"compare", b, a, "-o", pairs});
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_NE(other.err.find("belongs to another run"), std::string::npos) << other.err;
  must({"validate", pairs});
  const ProgramResult shown = run({"show", pairs});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("4 of 4 pairs compared (complete)"), std::string::npos) << shown.out;
  EXPECT_EQ(run({"show", pairs, "--metric", "stable_rank"}).exit_code, 64);
  const auto json = nlohmann::json::parse(run({"show", pairs, "--json"}).out);
  EXPECT_EQ(json["schema"], "vindex-compare-summary/1");
  EXPECT_EQ(json["groups"].size(), 4U);
}

TEST_F(CompareTest, TheTableFitsATerminalAndSaysWhoIsAlone) {
  std::vector<FloatTensor> b = attention(1);
  b.push_back(noise_tensor("model.layers.1.self_attn.q_proj.weight", {24, 20}, 7));
  const ProgramResult result =
      run({"compare", model("a", attention(1)), model("b", b), "-o", folder_.file("out.h5")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("without a partner: 0 of A, 1 of B"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("4 of 4 pairs"), std::string::npos) << result.out;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.size() <= 80 || line.rfind("results: ", 0) == 0) << line;
  }
}

// The experts of the original are tensors, those of the GGUF file slices of stacks; the original is
// BF16 and so is the file, so that whatever is stored alike has the same bits.
TEST_F(CompareTest, AnOriginalMeetsItsGgufFile) {
  VINDEX_NEEDS(mixture_gguf_);
  const std::string out = compared(mixture_, mixture_gguf_, "containers");
  const auto blocks = read_strings(out, "/pair/block");
  const NumberTable same = read_numbers(out, "/pair/same_bits");
  int experts = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    experts += blocks[i] == "routed_expert" ? 1 : 0;
    EXPECT_EQ(same.at(i), 1.0) << read_strings(out, "/pair/tensor_a")[i];
  }
  EXPECT_EQ(experts, 72);
  // kv_b_proj meets its heads.
  EXPECT_EQ(blocks.size(), 109U);
  EXPECT_TRUE(read_strings(out, "/unpaired/tensor").empty());
}

}  // namespace
}  // namespace vindex::testing::compare_cli_test
