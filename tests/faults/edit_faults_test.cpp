// Edits that are killed, and edits whose files may not grow: what they leave.
#include "faults_fixture.hpp"

#include "tests/support/file_size_limit.hpp"
#include "tests/support/npy_builder.hpp"

#include <map>
#include <string>
#include <vector>

namespace vindex::testing::edit_faults_test {
namespace {

using Contents = std::map<std::string, std::string>;

class EditFaultsTest : public FaultsTest {
 protected:
  void SetUp() override {
    FaultsTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    std::vector<double> direction(32);
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<double>(i % 7) - 3.0;
    }
    direction_ = folder_.write("v.npy", npy_array(direction, {32}));
    source_ = contents(model_);
    // A model that is one file.
    single_ = folder_.write("single/m.safetensors", source_.at("model.safetensors"));
    folder_.write("single/config.json", source_.at("config.json"));
  }
  std::vector<std::string> edit(const std::string& model,
                                const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"edit",
                                          "delete",
                                          model,
                                          "--tensor",
                                          "model.layers.1.mlp.experts.0.down_proj.weight",
                                          "--direction",
                                          direction_,
                                          "-q"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  /// Every way to leave something: a folder (new ones above it), an adapter, a file, each with a
  /// patch and a report.
  std::vector<std::vector<std::string>> commands() const {
    const std::string patch = folder_.file("out/p.safetensors");
    return {
        edit(model_, {"-o", folder_.file("out/new/edited"), "--save-patch", patch}),
        edit(model_, {"--as", "lora", "-o", folder_.file("out/new/lora"), "--save-patch", patch}),
        edit(single_, {"-o", folder_.file("out/edited.safetensors"), "--save-patch", patch}),
        edit(model_, {"--save-patch", patch, "--report", folder_.file("out/r.json")})};
  }
  /// Of every file below `folder`, by its path from there.
  static Contents contents(const std::string& folder) {
    Contents found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) {
        found[fs::relative(entry.path(), folder)] = file_text(entry.path());
      }
    }
    return found;
  }
  Contents outputs() const { return contents(folder_.file("out")); }
  static bool is_temporary(const std::string& path) {
    return path.find(".tmp.") != std::string::npos;
  }
  /// Whether each output is absent or whole: no folder with some of its files.
  static void expect_whole(const Contents& left, const Contents& wanted, const std::string& what) {
    std::map<std::string, std::pair<std::size_t, std::size_t>> folders;  // files left, and wanted
    for (const auto& [path, text] : wanted) {
      ++folders[fs::path(path).parent_path()].second;
    }
    for (const auto& [path, text] : left) {
      if (!is_temporary(path)) {
        ASSERT_TRUE(wanted.contains(path)) << what << path;
        EXPECT_EQ(text, wanted.at(path)) << what << path;
        ++folders[fs::path(path).parent_path()].first;
      }
    }
    for (const auto& [folder, files] : folders) {
      EXPECT_TRUE(folder.empty() || files.first == 0 || files.first == files.second)
          << what << folder << ": " << files.first << " of " << files.second;
    }
  }

  std::string direction_, single_;
  Contents source_;
};

TEST_F(EditFaultsTest, KilledAtAnyCallTheyLeaveWholeFilesAndTemporaryNames) {
  const std::string calls = "open,openat,pwrite,fsync,rename,mkdir,link";
  for (const std::vector<std::string>& command : commands()) {
    clear();
    must(command);
    const Contents wanted = outputs();
    clear();
    const std::size_t count = count_calls(calls, "*/out/*", command);
    ASSERT_GT(count, 4U);
    for (std::size_t at = 1; at <= count; ++at) {
      const std::string what = command.at(9) + ", call " + std::to_string(at) + ": ";
      clear();
      const Plan plan = {
          {"CALLS", calls}, {"PATH", "*/out/*"}, {"AT", std::to_string(at)}, {"DO", "kill-after"}};
      ASSERT_EQ(run_with(plan, command).exit_code, kKilled) << what;
      const Contents left = outputs();
      expect_whole(left, wanted, what);
      EXPECT_EQ(contents(model_), source_) << what;
      // What is whole already is not replaced unasked: 73. Temporary names go all the same.
      const ProgramResult again = run(command);
      const bool had_outputs = std::any_of(
          left.begin(), left.end(), [](const auto& file) { return !is_temporary(file.first); });
      EXPECT_EQ(again.exit_code, had_outputs ? 73 : 0) << what << again.err;
      const Contents now = outputs();
      expect_whole(now, wanted, what);
      EXPECT_EQ(std::count_if(now.begin(), now.end(),
                              [](const auto& file) { return is_temporary(file.first); }),
                0)
          << what;
      if (!had_outputs) {
        EXPECT_EQ(now, wanted) << what;
      }
    }
  }
}

TEST_F(EditFaultsTest, WhatMayNotGrowLeavesNothing) {
  for (const std::vector<std::string>& command : commands()) {
    for (const rlim_t bytes : {rlim_t{0}, rlim_t{100}, rlim_t{400}}) {
      clear();
      ProgramResult result;
      {
        const FileSizeLimit limit(bytes);
        result = run(command);
      }
      // What it says goes to a file as well: the exit code alone is left at a limit of 0.
      EXPECT_EQ(result.exit_code, 74) << command.at(9) << " " << bytes << result.err;
      EXPECT_TRUE(names().empty()) << command.at(9) << " " << bytes << ": " << names().front();
    }
  }
}

}  // namespace
}  // namespace vindex::testing::edit_faults_test
