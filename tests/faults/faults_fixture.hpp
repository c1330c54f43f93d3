// Owns what the tests of failing calls share: a small model, a folder for outputs, and the program
// run with a plan of what is to go wrong.
#pragma once

#include "tests/support/program/fault_environment.hpp"
#include "tests/support/program/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

namespace fs = std::filesystem;
using Plan = std::vector<std::pair<std::string, std::string>>;

inline constexpr int kKilled = 128 + 9;

class FaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (VINDEX_SANITIZED != 0) {
      GTEST_SKIP() << "a sanitizer's library must be the first to be loaded";
    }
    must({"synth", "layer:2x48x32:bf16", "-o", model_});
    fs::create_directory(folder_.file("out"));
  }
  ProgramResult run(const std::vector<std::string>& arguments) {
    return RunningProgram(VINDEX_PROGRAM, arguments, folder_.file("stream")).finish();
  }
  ProgramResult run_with(const Plan& plan, const std::vector<std::string>& arguments) {
    const FaultEnvironment faults(VINDEX_FAULTS, plan);
    return run(arguments);
  }
  /// Within so much address space. A run that does not end by itself is killed (137).
  ProgramResult run_within(int mebibytes, const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"-c",
                                      "ulimit -v " + std::to_string(1024 * mebibytes) +
                                          R"( && exec timeout -s KILL 60 "$0" "$@")",
                                      VINDEX_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return RunningProgram("/bin/sh", words, folder_.file("stream")).finish();
  }
  void must(const std::vector<std::string>& arguments) {
    const ProgramResult result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  std::vector<std::string> measure(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"measure", model_, "-o", results_, "-q"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// The calls that a run of `arguments` makes, "NUMBER NAME PATH" each.
  std::size_t count_calls(const std::string& calls, const std::string& path,
                          const std::vector<std::string>& arguments) {
    const std::string log = folder_.file("log");
    run_with({{"CALLS", calls}, {"PATH", path}, {"LOG", log}}, arguments);
    const std::string text = file_text(log);
    fs::remove(log);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.file("out"))) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  void clear() {
    fs::remove_all(folder_.file("out"));
    fs::create_directory(folder_.file("out"));
  }
  /// The same command again ends well and leaves the results file alone.
  void expect_complete_rerun() {
    const ProgramResult again = run(measure());
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_EQ(names(), std::vector<std::string>{"o.h5"});
    EXPECT_EQ(run({"validate", results_}).exit_code, 0);
  }

  TemporaryFolder folder_;
  const std::string model_ = folder_.file("model");
  const std::string results_ = folder_.file("out/o.h5");
  const std::string lock_ = results_ + ".parts/0of1.lock";
};

}  // namespace vindex::testing
