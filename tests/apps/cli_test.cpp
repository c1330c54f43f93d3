// The command line as a contract: streams, exit codes, help, refusals.
#include "support/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace vindex::testing::cli_test {
namespace {

class CliTest : public ::testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& arguments) {
    return RunningProgram(VINDEX_PROGRAM, arguments, folder_.file("stream")).finish();
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.file(name), std::ios::binary) << text;
    return folder_.file(name);
  }
  TemporaryFolder folder_;
};

TEST_F(CliTest, HelpStartsWithExamplesAndGoesToStandardOutput) {
  const ProgramResult help = run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LT(help.out.find("Examples:"), help.out.find("Options:"));
  EXPECT_EQ(help.err, "");
  for (const char* verb : {"inspect", "decode", "plan", "measure", "merge", "status", "validate",
                           "export", "synth", "bench"}) {
    EXPECT_NE(help.out.find(verb), std::string::npos) << verb;
    EXPECT_EQ(run({verb, "--help"}).exit_code, 0) << verb;
  }
}

TEST_F(CliTest, VersionNamesProgramCommitAndCompiler) {
  const ProgramResult version = run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("vindex 0.", 0), 0U);
}

TEST_F(CliTest, UsageErrorsAreOneLineAnd64) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {},
           {"frobnicate"},
           {"measure"},
           {"measure", "x"},
           {"measure", "x", "-o", "y", "--mode", "sloppy"},
           {"measure", "x", "-o", "y", "--worker", "2/2"},
           {"measure", "x", "-o", "y", "--layers", "a"},
           {"measure", "x", "-o", "y", "--ram-budget", "8 apples"},
           {"synth", "no-such-model", "-o", folder_.file("z")}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
  }
}

TEST_F(CliTest, AnUnknownVerbIsNamed) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"benhc", "--sections", "decode"}, {"-q", "benhc"}, {"benhc", "decode", "x"}}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_EQ(result.err.rfind("vindex: E-USAGE: 'benhc' is no verb; they are inspect, ", 0), 0U)
        << result.err;
  }
}

TEST_F(CliTest, AConfigurationThatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  const std::string folder = folder_.path().string();
  for (const std::string& path : {folder_.file("pipe"), std::string("/dev/zero"), folder}) {
    const ProgramResult result = run({"inspect", "x", "--config", path});
    EXPECT_EQ(result.exit_code, 66) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-FILE-KIND: ", 0), 0U) << result.err;
  }
  const std::string large = write("large", std::string(2'000'000, '\n'));
  EXPECT_EQ(run({"inspect", "x", "--config", large}).exit_code, 64);
}

TEST_F(CliTest, DecodeDoesNotReplaceItsOwnInput) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string text =
      std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
  const std::string model = write("m.safetensors", text + std::string(16, '\0'));
  std::filesystem::create_symlink("m.safetensors", folder_.file("link"));
  std::filesystem::create_hard_link(model, folder_.file("hard"));
  for (const std::string& target : {model, folder_.file("link"), folder_.file("hard")}) {
    const ProgramResult result = run({"decode", model, "--tensor", "a", "-o", target});
    EXPECT_EQ(result.exit_code, 73) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: E-OUTPUT: ", 0), 0U) << result.err;
    EXPECT_EQ(file_text(model), text + std::string(16, '\0'));
  }
  EXPECT_EQ(run({"decode", model, "--tensor", "a", "-o", ""}).exit_code, 73);
}

TEST_F(CliTest, WeightsThatAreNotFiniteAreAWarning) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  const std::string model = write(
      "m.safetensors", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                           header + std::string(12, '\0') + std::string(4, '\xFF'));
  const ProgramResult result =
      run({"measure", model, "-o", folder_.file("o.h5"), "--backend", "cpu", "--progress", "none"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning W-NOT-FINITE: 1 of 1 "), std::string::npos) << result.err;
}

TEST_F(CliTest, RefusalsAreQuickSmallAndLeaveNothing) {
  const std::string fifo = folder_.file("fifo.gguf");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.file("empty"));
  struct Case {
    std::string model;
    int exit_code;
  };
  const std::vector<Case> cases = {
      {folder_.file("absent"), 66},
      {folder_.file("empty"), 66},
      {fifo, 66},
      {"/dev/zero", 66},
      {write("magic.gguf", "GGUF"), 65},
      {write("page.safetensors", "<!DOCTYPE html><html>"), 65},
      {write("pointer.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
       65},
      {write("lie.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)), 65},
  };
  const long baseline = run({"--version"}).peak_kib;
  for (const Case& refused : cases) {
    for (const std::string verb : {"inspect", "measure"}) {
      std::vector<std::string> arguments = {verb, refused.model};
      if (verb == "measure") {
        arguments.insert(arguments.end(), {"-o", folder_.file("out.h5")});
      }
      const ProgramResult result = run(arguments);
      EXPECT_EQ(result.exit_code, refused.exit_code) << refused.model << result.err;
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(result.err.rfind("vindex: E-", 0), 0U) << result.err;
      EXPECT_LT(result.peak_kib, baseline + 200 * 1024);
      EXPECT_LT(result.seconds, VINDEX_SANITIZED ? 20.0 : 2.0);
      EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
      EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5.parts")));
    }
  }
}

/// A header of about `bytes` whose entries are empty tensors named from `first` on, the last again
/// if `repeats`.
std::string header_of(std::size_t bytes, std::size_t first, bool repeats) {
  const auto entry = [](std::size_t number) {
    std::string digits = std::to_string(number);
    digits.insert(0, 60 - digits.size(), '0');
    return "\"" + digits + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  };
  std::string header(1, '{');
  std::size_t number = first;
  while (header.size() < bytes) {
    header.append(entry(number++)).push_back(',');
  }
  header.append(entry(repeats ? number - 1 : number)).push_back('}');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i));
  }
  return length + header;
}

// Headers are read side by side: several hostile ones must take no more than one, and the first is
// the one that is named.
TEST_F(CliTest, SeveralHostileShardsAreRefusedInTheMemoryOfOne) {
  const long baseline = run({"--version"}).peak_kib;
  const auto shard = [](int number, int count) {
    char name[40];
    std::snprintf(name, sizeof(name), "m-%05d-of-%05d.safetensors", number, count);
    return std::string(name);
  };
  struct Case {
    int count;
    std::size_t first_bytes, other_bytes;
    bool others_are_bad;
  };
  for (const Case& hostile :
       {Case{2, 64U << 20U, 64U << 20U, true}, Case{9, 20U << 20U, 3U << 20U, false}}) {
    const std::string folder = folder_.file("hostile" + std::to_string(hostile.count));
    std::filesystem::create_directory(folder);
    for (int i = 1; i <= hostile.count; ++i) {
      std::ofstream(folder + "/" + shard(i, hostile.count), std::ios::binary)
          << header_of(i == 1 ? hostile.first_bytes : hostile.other_bytes,
                       static_cast<std::size_t>(i) * 10'000'000, i == 1 || hostile.others_are_bad);
    }
    const ProgramResult result = run({"inspect", folder});
    EXPECT_EQ(result.exit_code, 65);
    EXPECT_EQ(result.err.rfind("vindex: E-JSON-DUPLICATE-KEY: ", 0), 0U) << result.err;
    EXPECT_NE(result.err.find(shard(1, hostile.count)), std::string::npos) << result.err;
    if (!VINDEX_SANITIZED) {
      EXPECT_LT(result.peak_kib, baseline + 200 * 1024);
    }
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace vindex::testing::cli_test
