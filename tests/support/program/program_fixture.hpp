// The program on real weights: one folder per test, its commands as calls, decoded weights as
// numbers.
#pragma once

#include "program.hpp"

#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace vindex::testing {

/// Skips a test whose real weights are not here.
#define VINDEX_NEEDS(path)                               \
  if (!std::filesystem::exists(path)) {                  \
    GTEST_SKIP() << "shared data not found: " << (path); \
  }

class ProgramTest : public ::testing::Test {
 protected:
  ProgramResult run(const std::vector<std::string>& arguments) {
    return RunningProgram(VINDEX_PROGRAM, arguments, folder_.file("stream")).finish();
  }
  /// Every command of the program, as `vindex commands --json` describes it: "measure",
  /// "organ.extract".
  std::map<std::string, nlohmann::json> commands_of_program() {
    const ProgramResult described = run({"commands", "--json"});
    EXPECT_EQ(described.exit_code, 0) << described.err;
    EXPECT_EQ(described.err, "");
    return nlohmann::json::parse(described.out)["commands"];
  }
  /// {"organ", "extract"} of "organ.extract".
  static std::vector<std::string> words_of(const std::string& command) {
    const std::size_t dot = command.find('.');
    return dot == std::string::npos
               ? std::vector<std::string>{command}
               : std::vector<std::string>{command.substr(0, dot), command.substr(dot + 1)};
  }
  void must(const std::vector<std::string>& arguments, int exit_code = 0) {
    const ProgramResult result = run(arguments);
    ASSERT_EQ(result.exit_code, exit_code) << result.out << result.err;
  }
  /// Measures, validates, and returns the results file.
  std::string measured(const std::string& model, const std::string& name,
                       std::vector<std::string> more = {}, int exit_code = 0) {
    const std::string out = folder_.file(name + ".h5");
    std::vector<std::string> arguments = {"measure", model, "-o", out, "--progress", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    must(arguments, exit_code);
    must({"validate", out});
    return out;
  }
  /// Every column of /matrix/ as CSV text.
  std::string csv(const std::string& results) {
    must({"export", results, "--format", "csv", "-o", folder_.file("table.csv"), "--force"});
    return file_text(folder_.file("table.csv"));
  }
  /// The values that `vindex decode` writes.
  std::vector<float> decoded(const std::string& model, const std::string& tensor, int slice = -1) {
    const std::string out = folder_.file("decoded.f32");
    std::vector<std::string> arguments = {"decode", model, "--tensor", tensor,
                                          "-o",     out,   "--force"};
    if (slice >= 0) {
      arguments.insert(arguments.end(), {"--slice", std::to_string(slice)});
    }
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string bytes = result.exit_code == 0 ? file_text(out) : std::string();
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }

  const std::string data_ = VINDEX_SHARED_DATA;
  const std::string mixture_ = data_ + "/moe";
  const std::string mixture_gguf_ = data_ + "/moe/kjv-moe-7.6M-BF16.gguf";
  TemporaryFolder folder_;
};

/// Every part stands in the text.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

/// Equal as bits: NaN equals itself, and 0 is not -0.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace vindex::testing
