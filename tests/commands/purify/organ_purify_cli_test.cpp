// The command organ purify, as a user meets it.
#include "tests/support/gguf_builder.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

namespace vindex::testing::organ_purify_cli_test {
namespace {

class OrganPurifyTest : public ProgramTest {
 protected:
  void SetUp() override {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    GgufBuilder builder;
    builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 2);
    for (int block = 0; block < 2; ++block) {
      std::vector<float> left(64);
      std::generate(left.begin(), left.end(), [&] { return normal(random); });
      builder.tensor("blk." + std::to_string(block) + ".ffn_up.weight", {64, 64}, 0,
                     builder.data.size());
      for (const float a : left) {
        for (const float b : left) {
          const float value = a * b + 0.1F * normal(random);
          builder.data.append(reinterpret_cast<const char*>(&value), sizeof(value));
        }
      }
    }
    std::ofstream(model_, std::ios::binary) << builder.bytes();
  }
  /// The line on standard error of a refusal.
  std::string refusal(std::vector<std::string> arguments, int exit_code) {
    arguments.insert(arguments.begin(), {"organ", "purify"});
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }
  const std::string model_ = folder_.file("model.gguf");
  const std::string out_ = folder_.file("out.gguf");
};

TEST_F(OrganPurifyTest, ADryRunJudgesIn80ColumnsAndWritesNothing) {
  const ProgramResult result =
      run({"organ", "purify", model_, "--dry-run", "--backend", "cpu", "-o", out_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("blk.1.ffn_up"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("2 of 2 matrices purified"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("doing nothing"), std::string::npos) << result.out;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(OrganPurifyTest, OnlyTheLayersThatAreNamedChange) {
  must({"organ", "purify", model_, "-o", out_, "--backend", "cpu", "--layers", "1"});
  EXPECT_EQ(decoded(out_, "blk.0.ffn_up.weight"), decoded(model_, "blk.0.ffn_up.weight"));
  EXPECT_NE(decoded(out_, "blk.1.ffn_up.weight"), decoded(model_, "blk.1.ffn_up.weight"));
}

TEST_F(OrganPurifyTest, TheLastLineNamesTheOutputAndSaysWhereNothingChanged) {
  const ProgramResult none =
      run({"organ", "purify", model_, "-o", out_, "--backend", "cpu", "--cap", "0"});
  EXPECT_EQ(none.exit_code, 0) << none.err;
  std::string flat = none.out;
  for (std::size_t at = 0; (at = flat.find("\n  ", at)) != std::string::npos;) {
    flat.replace(at, 3, " ");
  }
  EXPECT_NE(flat.find("nothing was changed: " + out_ + " has the weights of " + model_),
            std::string::npos)
      << none.out;
  EXPECT_EQ(decoded(out_, "blk.1.ffn_up.weight"), decoded(model_, "blk.1.ffn_up.weight"));
  const ProgramResult some =
      run({"organ", "purify", model_, "-o", out_, "--backend", "cpu", "--force"});
  EXPECT_NE(some.out.find("written: "), std::string::npos) << some.out;
}

TEST_F(OrganPurifyTest, FlagsMayStandInAFile) {
  const std::string flags = folder_.file("flags.toml");
  std::ofstream(flags) << "dry-run = true\nlayers = \"1\"\nbackend = \"cpu\"\n";
  const ProgramResult result = run({"organ", "purify", model_, "--config", flags, "-o", out_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("1 of 1 matrices purified"), std::string::npos) << result.out;
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(OrganPurifyTest, RefusalsSayWhy) {
  EXPECT_NE(refusal({model_}, 64).find("--output is missing"), std::string::npos);
  EXPECT_NE(refusal({model_, "-o", model_, "--force"}, 73).find("E-OUTPUT-SOURCE"),
            std::string::npos);
  std::ofstream(out_) << "there";
  EXPECT_NE(refusal({model_, "-o", out_}, 73).find("E-OUTPUT-EXISTS"), std::string::npos);
  EXPECT_EQ(file_text(out_), "there");
  EXPECT_NE(refusal({folder_.file("absent.gguf"), "--dry-run"}, 66).find("absent.gguf"),
            std::string::npos);
  EXPECT_NE(refusal({model_, "--dry-run", "--rate", "9"}, 64).find("E-PURIFY-RHO"),
            std::string::npos);
  EXPECT_NE(refusal({model_, "--dry-run", "--out-type", "Q4_K"}, 64).find("no encoder for Q4_K"),
            std::string::npos);
  EXPECT_NE(refusal({model_, "--method", "fft", "--factors", folder_.file("f.safetensors")}, 64)
                .find("E-PURIFY-FACTORS"),
            std::string::npos);
  EXPECT_NE(refusal({model_, "--dry-run", "--ram-budget", "1kB"}, 78).find("E-BUDGET"),
            std::string::npos);
  refusal({model_, "--dry-run", "--method", "magic"}, 64);
  refusal({model_, "--dry-run", "--type", "liver"}, 64);
}

}  // namespace
}  // namespace vindex::testing::organ_purify_cli_test
