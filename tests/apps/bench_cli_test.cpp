// The command bench: what it prints, refuses, and leaves behind.
#include "tests/support/program/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>

namespace vindex::testing::bench_cli_test {
namespace {

class BenchCliTest : public ::testing::Test {
 protected:
  ProgramResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "--backend", "cpu", "--samples", "1", "--folder",
                                         folder_.path().string()});
    return RunningProgram(VINDEX_PROGRAM, arguments, streams_.file("stream")).finish();
  }
  TemporaryFolder folder_;
  TemporaryFolder streams_;
};

TEST_F(BenchCliTest, EverySectionIsMeasuredBesideALimit) {
  const ProgramResult result =
      run({"--json", "--shapes", "256x128", "--encodings", "F8,BF16", "--modes", "default,strict",
           "--batch", "1,3", "--synth", "layer:3x256x128:fp8", "--tensors", "300"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document.at("schema"), "vindex-bench/1");
  std::map<std::string, int> names;
  std::map<std::string, int> spectra;
  for (const auto& row : document.at("rows")) {
    const auto name = row.at("name").get<std::string>();
    ++names[name];
    ++spectra[name + " " + row.value("spectrum", "none")];
    EXPECT_EQ(row.at("samples").size(), 1U) << row;
    if (name == "probe.page_cache") {
      // What direct reads have read is not there: rows of the page cache fill it first.
      const double wanted = row.at("route") == "page-cache" ? 1.0 : 0.0;
      EXPECT_NEAR(row.at("samples")[0].get<double>(), wanted, 0.01) << row;
      EXPECT_NE(row.at("note").get<std::string>().find("pieces"), std::string::npos) << row;
      continue;
    }
    for (const double sample : row.at("samples")) {
      EXPECT_GT(sample, 0.0) << row;
    }
    if (name.starts_with("spectra.") || name == "end_to_end" || name == "read") {
      EXPECT_GT(row.at("limit"), 0.0) << row;
    }
  }
  EXPECT_EQ(spectra["spectra.default trained"], 4);  // two encodings, two batches
  EXPECT_EQ(spectra["spectra.default noise"], 4);
  EXPECT_EQ(spectra["spectra.strict noise"], 4);
  EXPECT_EQ(names["spectra.strict"], 4);
  EXPECT_EQ(spectra["gram noise"], 8);
  EXPECT_EQ(spectra["end_to_end noise"], names["end_to_end"]);
  EXPECT_GE(names["end_to_end"], 1);
  EXPECT_EQ(names["read"], 2 * names["end_to_end"]);  // of each cache, both ways of reading
  EXPECT_EQ(names["probe.page_cache"], names["end_to_end"]);
  EXPECT_EQ(names["probe.work"], names["end_to_end"]);
  EXPECT_GE(names["probe.memcpy"], 1);
  EXPECT_EQ(names["probe.index"], 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "scratch files stay";
}

TEST_F(BenchCliTest, SpectraAreChosen) {
  const ProgramResult result =
      run({"--sections", "spectra", "--spectra", "trained,spiked", "--modes", "fast,default",
           "--shapes", "192x96", "--encodings", "BF16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("192x96 BF16, trained"), std::string::npos) << result.err;
  std::vector<std::string> found;
  const auto document = nlohmann::json::parse(result.out);
  for (const auto& row : document.at("rows")) {
    const auto name = row.at("name").get<std::string>();
    if (name.starts_with("spectra.")) {
      found.push_back(name + " " + row.at("spectrum").get<std::string>());
    }
  }
  EXPECT_EQ(found, (std::vector<std::string>{"spectra.fast trained", "spectra.fast spiked",
                                             "spectra.default trained", "spectra.default spiked"}));
}

TEST_F(BenchCliTest, SectionsAreChosenAndATableIsPrinted) {
  const ProgramResult result =
      run({"--sections", "decode", "--shapes", "16x256", "--encodings", "Q4_K", "-q"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("Q4_K"), std::string::npos);
  EXPECT_EQ(result.out.find("spectra"), std::string::npos);
}

TEST_F(BenchCliTest, IndexingSaysHowManyTensorsItTakesInASecond) {
  const ProgramResult result = run({"--sections", "index", "--tensors", "4000", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  const auto& rows = document.at("rows");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("name"), "probe.index");
  EXPECT_EQ(rows[0].at("encoding"), "INT4/g32");
  EXPECT_EQ(rows[0].at("batch"), 3999);  // codes, scales and a shape for each of 1333 weights
  const auto note = rows[0].at("note").get<std::string>();
  EXPECT_EQ(note.find("3999 tensors in 2 files: "), 0U) << note;
  EXPECT_EQ(rows[1].at("name"), "probe.index.processor");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "scratch files stay";
}

TEST_F(BenchCliTest, AModelOfTheUsersIsMeasuredAndStays) {
  const std::string model = streams_.file("model");
  ASSERT_EQ(RunningProgram(VINDEX_PROGRAM, {"synth", "layer:2x128x64:bf16", "-o", model},
                           streams_.file("synth"))
                .finish()
                .exit_code,
            0);
  const ProgramResult result = run({"--sections", "end-to-end", "--model", model, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("end_to_end"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(model));
}

TEST_F(BenchCliTest, ARouteThatIsNotThereIsRefused) {
  const ProgramResult result = run(
      {"--sections", "spectra", "--shapes", "64x32", "--encodings", "F32", "--routes", "magic"});
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_EQ(result.out, "");
}

TEST_F(BenchCliTest, MistakesAreUsageErrors) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--shapes", "7168"},
           {"--shapes", "10x10x10"},
           {"--sections", "all"},
           {"--spectra", "flat"},
           {"--encodings", "Q9", "--shapes", "256x256"},
           {"--sections", "spectra", "--encodings", "Q4_K", "--shapes", "256x256"},
           {"--sections", "decode", "--shapes", "4x100", "--encodings", "Q4_K"},
           {"--simd", "mmx", "--sections", "decode", "--shapes", "4x256"},
           {"--batch", "0"}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64) << result.out << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(BenchCliTest, AGpuThatIsNotThereIsSaidSo) {
  if (std::filesystem::exists("/dev/nvidia0")) {
    GTEST_SKIP() << "a GPU is here";
  }
  const ProgramResult result =
      RunningProgram(VINDEX_PROGRAM, {"bench", "--backend", "cuda"}, streams_.file("stream"))
          .finish();
  EXPECT_EQ(result.exit_code, 70);
  EXPECT_NE(result.err.find("E-NO-GPU"), std::string::npos);
}

}  // namespace
}  // namespace vindex::testing::bench_cli_test
