// Shares that are claimed, where a process is killed at any step of it, and where the clock of a
// machine is wrong.
#include "faults_fixture.hpp"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace vindex::testing::claim_faults_test {
namespace {

class ClaimFaultsTest : public FaultsTest {
 protected:
  std::vector<std::string> claim() { return measure({"--claim"}); }
  /// The same command and the merge end well and leave the results file alone.
  void expect_merge_after_rerun() {
    const ProgramResult again = run(claim());
    EXPECT_EQ(again.exit_code, 0) << again.err;
    const ProgramResult merged = run({"merge", results_ + ".parts", "-o", results_});
    EXPECT_EQ(merged.exit_code, 0) << merged.err;
    EXPECT_EQ(names(), std::vector<std::string>{"o.h5"});
    EXPECT_EQ(run({"validate", results_}).exit_code, 0);
  }
  std::size_t records() const {
    std::size_t found = 0;
    for (const std::string& name : names()) {
      found += name.ends_with(".done") ? 1 : 0;
    }
    return found;
  }
  /// Of another machine, refreshed `age` ago by the clock of the files.
  static void stamp(const std::string& path, std::chrono::seconds age) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  }
};

TEST_F(ClaimFaultsTest, KilledAtAnyStepOfAClaimOrARecordNothingIsLost) {
  for (const char* const path : {"*/claims*", "*.done*"}) {
    clear();
    const std::size_t count = count_calls("*", path, claim());
    ASSERT_GT(count, 8U);
    for (std::size_t at = 1; at <= count; at += 5) {
      clear();
      const ProgramResult killed =
          run_with({{"PATH", path}, {"AT", std::to_string(at)}, {"DO", "kill-after"}}, claim());
      ASSERT_EQ(killed.exit_code, kKilled) << path << " " << at;
      expect_merge_after_rerun();
    }
  }
}

/// Ten years ahead every file looks old, and thirty years back none does; a claim is neither.
TEST_F(ClaimFaultsTest, AWrongClockMakesNoClaimLookDeadOrAlive) {
  must(claim());
  const std::size_t shares = records();
  ASSERT_GT(shares, 1U);
  const std::string elsewhere = results_ + ".parts/claims/1of" + std::to_string(shares) + ".lock";
  const long now = static_cast<long>(std::time(nullptr));
  for (const long date : {now + 10L * 365 * 86400, 1'000'000'000L}) {
    clear();
    fs::create_directories(fs::path(elsewhere).parent_path());
    std::ofstream(elsewhere) << "elsewhere 17 1\n";
    const FaultEnvironment skewed(VINDEX_FAULTS, {{"DATE", std::to_string(date)}});
    RunningProgram running(VINDEX_PROGRAM, claim(), folder_.file("waiting"));
    for (int i = 0; i < 600 && records() + 1 < shares; ++i) {
      stamp(elsewhere, std::chrono::seconds(0));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_EQ(records(), shares - 1) << "a share of a machine that lives is left to it";
    EXPECT_EQ(file_text(elsewhere), "elsewhere 17 1\n");
    stamp(elsewhere, std::chrono::seconds(200));
    const ProgramResult ended = running.finish();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(records(), shares);
  }
}

TEST_F(ClaimFaultsTest, WithoutLocksOfTheFileSystemTheAgeOfAClaimTells) {
  must(claim());
  const std::size_t shares = records();
  clear();
  const std::string elsewhere = results_ + ".parts/claims/1of" + std::to_string(shares) + ".lock";
  fs::create_directories(fs::path(elsewhere).parent_path());
  std::ofstream(elsewhere) << "elsewhere 17 1\n";
  stamp(elsewhere, std::chrono::seconds(200));
  const ProgramResult ended = run_with(
      {{"CALLS", "fcntl"}, {"PATH", "*.lock*"}, {"AT", "1"}, {"TIMES", "all"}, {"DO", "ENOLCK"}},
      claim());
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(records(), shares);
  expect_merge_after_rerun();
}

}  // namespace
}  // namespace vindex::testing::claim_faults_test
