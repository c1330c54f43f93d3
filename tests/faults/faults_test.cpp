// The program where single calls of the system fail, or it is killed at them: what once ended
// wrongly. Every call of short runs is walked by walk.py.
#include "support/fault_environment.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace vindex::testing {
namespace {

namespace fs = std::filesystem;
using Plan = std::vector<std::pair<std::string, std::string>>;

constexpr int kKilled = 128 + 9;

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

TEST_F(FaultsTest, TheLibraryCountsCallsAndHitsTheOneThatIsMeant) {
  const std::size_t count = count_calls("pwrite,pread", "*o.h5*", measure());
  ASSERT_GT(count, 100U);
  clear();
  const std::string log = folder_.file("log");
  const Plan plan = {{"CALLS", "pwrite,pread"}, {"PATH", "*o.h5*"}, {"LOG", log}, {"DO", "EIO"}};
  Plan beyond = plan;
  beyond.emplace_back("AT", "100000");
  EXPECT_EQ(run_with(beyond, measure()).exit_code, 0);
  EXPECT_EQ(file_text(log).find('!'), std::string::npos);
  clear();
  Plan first = plan;
  first.emplace_back("AT", "1");
  const ProgramResult result = run_with(first, measure());
  EXPECT_EQ(result.exit_code, 74);
  EXPECT_NE(result.err.find("Input/output error"), std::string::npos) << result.err;
  EXPECT_NE(file_text(log).find("\n! 1 pwrite "), std::string::npos);
  // Half a plan must not look like a run without faults.
  EXPECT_EQ(run_with({{"AT", "1"}}, measure()).exit_code, 99);
}

TEST_F(FaultsTest, KilledWhileItsLockAppearsKeepsNobodyOut) {
  const std::size_t count = count_calls("*", "*0of1.lock*", measure());
  ASSERT_GT(count, 3U);
  for (std::size_t at = 1; at <= count; ++at) {
    clear();
    const ProgramResult killed = run_with(
        {{"PATH", "*0of1.lock*"}, {"AT", std::to_string(at)}, {"DO", "kill-after"}}, measure());
    ASSERT_EQ(killed.exit_code, kKilled) << at;
    expect_complete_rerun();
  }
}

TEST_F(FaultsTest, ALockThatSaysNothingIsStaleWhenNobodyHoldsIt) {
  fs::create_directory(results_ + ".parts");
  std::ofstream(lock_).flush();
  expect_complete_rerun();
}

TEST_F(FaultsTest, KilledAtATakeOverLeavesNothingBehind) {
  const auto leave_stale = [&] {
    clear();
    fs::create_directory(results_ + ".parts");
    std::string host(256, '\0');
    ::gethostname(host.data(), host.size());
    std::ofstream(lock_) << host.c_str() << " 999999999 1\n";
  };
  leave_stale();
  const std::size_t count = count_calls("*", "*0of1.lock*", measure());
  for (std::size_t at = 1; at <= count; ++at) {
    leave_stale();
    const ProgramResult killed = run_with(
        {{"PATH", "*0of1.lock*"}, {"AT", std::to_string(at)}, {"DO", "kill-after"}}, measure());
    ASSERT_EQ(killed.exit_code, kKilled) << at;
    expect_complete_rerun();
  }
}

/// Of another machine, not refreshed for an hour: stale, unless the file system says that somebody
/// holds it.
TEST_F(FaultsTest, ALockThatIsHeldIsAliveWhateverItSays) {
  fs::create_directory(results_ + ".parts");
  std::ofstream(lock_) << "elsewhere 17 1\n";
  fs::last_write_time(lock_, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const int descriptor = ::open(lock_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  if (::fcntl(descriptor, F_OFD_SETLK, &whole) != 0) {
    ::close(descriptor);
    GTEST_SKIP() << "this file system has no locks";
  }
  const ProgramResult refused = run(measure());
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("E-RUN-LOCKED"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("process 17 on elsewhere"), std::string::npos) << refused.err;
  ::close(descriptor);
  expect_complete_rerun();
}

TEST_F(FaultsTest, WhereTheFileSystemHasNoLocksTheContentTells) {
  const Plan no_locks = {
      {"CALLS", "fcntl"}, {"PATH", "*.lock*"}, {"AT", "1"}, {"TIMES", "all"}, {"DO", "ENOLCK"}};
  fs::create_directory(results_ + ".parts");
  std::ofstream(lock_) << "elsewhere 17 1\n";
  EXPECT_EQ(run_with(no_locks, measure()).exit_code, 78);
  fs::last_write_time(lock_, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const ProgramResult taken = run_with(no_locks, measure());
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(names(), std::vector<std::string>{"o.h5"});
}

TEST_F(FaultsTest, AReadErrorWhileTheFileIsReadBackNamesItself) {
  must(measure({"--tensors", "model.layers.1.mlp.experts.0.down_proj.weight"}));
  const std::string earlier = file_text(results_);
  const Plan read_back = {{"CALLS", "pread"}, {"PATH", "*/o.h5.tmp.*"}};
  const std::size_t count = count_calls("pread", "*/o.h5.tmp.*", measure());
  ASSERT_GT(count, 100U);
  for (const std::size_t at : {std::size_t{1}, count / 3, count / 2, count - 1}) {
    for (const std::string times : {"1", "all"}) {
      std::ofstream(results_, std::ios::binary) << earlier;
      fs::remove_all(results_ + ".parts");
      Plan plan = read_back;
      plan.insert(plan.end(), {{"AT", std::to_string(at)}, {"TIMES", times}, {"DO", "EIO"}});
      const ProgramResult failed = run_with(plan, measure());
      EXPECT_EQ(failed.exit_code, 74) << at << failed.err;
      EXPECT_NE(failed.err.find("Input/output error"), std::string::npos) << failed.err;
      EXPECT_EQ(file_text(results_), earlier);
    }
  }
  expect_complete_rerun();
}

TEST_F(FaultsTest, APartThatCannotBeReadIsNoDamagedPart) {
  must(measure({"--worker", "0/2"}));
  must(measure({"--worker", "1/2"}));
  const std::vector<std::string> merge = {"merge", results_ + ".parts", "-o", results_, "-q"};
  const ProgramResult failed =
      run_with({{"CALLS", "pread"}, {"PATH", "*part-1of2*"}, {"AT", "9"}, {"DO", "EIO"}}, merge);
  EXPECT_EQ(failed.exit_code, 74) << failed.err;
  must(merge);
  EXPECT_EQ(names(), std::vector<std::string>{"o.h5"});
}

/// Errors that persist take the removal of temporary files along.
TEST_F(FaultsTest, WhatCouldNotBeRemovedGoesWithTheNextRun) {
  const Plan broken = {{"CALLS", "write,pwrite,fsync,unlink"},
                       {"PATH", "*/out/*"},
                       {"AT", "3"},
                       {"TIMES", "all"},
                       {"DO", "EIO"}};
  EXPECT_EQ(run_with(broken, measure()).exit_code, 74);
  EXPECT_FALSE(names().empty());
  expect_complete_rerun();
  const std::vector<std::string> decode = {"decode",
                                           model_,
                                           "--tensor",
                                           "model.layers.1.mlp.experts.0.down_proj.weight",
                                           "--force",
                                           "-o",
                                           folder_.file("out/w.f32")};
  const std::vector<std::string> table = {
      "export", results_, "--format", "csv", "--force", "-o", folder_.file("out/t.csv")};
  for (const auto& command : {decode, table}) {
    EXPECT_EQ(run_with({{"CALLS", "fsync"}, {"AT", "1"}, {"DO", "kill-before"}}, command).exit_code,
              kKilled);
    must(command);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"o.h5", "t.csv", "w.f32"}));
}

TEST_F(FaultsTest, NoThreadToBeHadIsNoCrash) {
  const std::size_t count = count_calls("pthread_create", "*", measure({"--threads", "3"}));
  ASSERT_GT(count, 5U);
  for (std::size_t at = 1; at <= count; ++at) {
    for (const std::string times : {"1", "all"}) {
      clear();
      const ProgramResult result = run_with({{"CALLS", "pthread_create"},
                                             {"AT", std::to_string(at)},
                                             {"TIMES", times},
                                             {"DO", "EAGAIN"}},
                                            measure({"--threads", "3"}));
      if (result.exit_code != 0) {
        EXPECT_EQ(result.exit_code, 70) << at << result.err;
        EXPECT_NE(result.err.find("E-THREADS: "), std::string::npos) << at << result.err;
      } else {
        EXPECT_EQ(names(), std::vector<std::string>{"o.h5"}) << at;
      }
      EXPECT_EQ(result.err.find("OpenBLAS"), std::string::npos) << result.err;
    }
  }
  expect_complete_rerun();
}

TEST_F(FaultsTest, FewerThreadsAreSaid) {
  bool told = false;
  for (std::size_t at = 1; at <= 40 && !told; ++at) {
    clear();
    const ProgramResult result =
        run_with({{"CALLS", "pthread_create"}, {"AT", std::to_string(at)}, {"DO", "EAGAIN"}},
                 {"measure", model_, "-o", results_, "--threads", "3", "--progress", "none"});
    told =
        result.exit_code == 0 && result.err.find("threads for 2 of 3 workers") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST_F(FaultsTest, NoMemoryIsAnErrorWithAName) {
  const Plan large = {{"CALLS", "malloc"}, {"BYTES", "65536"}};
  const std::string log = folder_.file("log");
  Plan counting = large;
  counting.emplace_back("LOG", log);
  EXPECT_EQ(run_with(counting, measure()).exit_code, 0);
  const std::string text = file_text(log);
  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  ASSERT_GT(count, 20U);
  // From there on: one allocation alone that fails may end libhdf5 (docs/reliability.md).
  for (std::size_t i = 0; i < 12; ++i) {
    clear();
    Plan plan = large;
    plan.insert(plan.end(),
                {{"AT", std::to_string(1 + i * count / 12)}, {"TIMES", "all"}, {"DO", "ENOMEM"}});
    const ProgramResult result = run_with(plan, measure());
    if (result.exit_code != 0) {
      EXPECT_EQ(result.exit_code, 70) << i << result.err;
      EXPECT_NE(result.err.find("E-MEMORY: "), std::string::npos) << i << result.err;
    }
  }
  expect_complete_rerun();
}

}  // namespace
}  // namespace vindex::testing
