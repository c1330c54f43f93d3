// The program where single calls of the system fail, or it is killed at them: what once ended
// wrongly. Every call of short runs is walked by walk.py.
#include "faults_fixture.hpp"

#include "core/files/process_name.hpp"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace vindex::testing::faults_test {
namespace {

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

/// The numbers of killed processes go to others, which may live for long: this one in their place.
TEST_F(FaultsTest, WhatAKilledRunLeftGoesThoughItsNumberIsInUseAgain) {
  const Plan killed = {{"CALLS", "pwrite"}, {"AT", "40"}, {"DO", "kill-before"}};
  ASSERT_EQ(run_with(killed, measure()).exit_code, kKilled);
  std::ofstream(folder_.file("out/stay.h5")) << "no results";
  const std::string mark = ".tmp." + host_name() + ".";
  int renamed = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.file("out"))) {
    const std::string path = entry.path();
    const std::size_t at = path.find(mark);
    if (at != std::string::npos) {
      fs::rename(path, path.substr(0, at) + mark + std::to_string(::getpid()) + ".1.0");
      ++renamed;
    }
  }
  ASSERT_GT(renamed, 0);
  ASSERT_TRUE(fs::exists(lock_));
  std::ofstream(lock_) << host_name() << " " << ::getpid() << " 1\n";
  const ProgramResult again = run(measure());
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(names(), (std::vector<std::string>{"o.h5", "stay.h5"}));
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

/// A disk that fails is no missing model, no other kind of file and no free output.
TEST_F(FaultsTest, WhatCannotBeExaminedIsNotTakenForAbsent) {
  const auto failing = [](const std::string& path) {
    return Plan{{"CALLS", "stat,lstat,fstatat,statx"}, {"PATH", path}, {"AT", "1"}, {"DO", "EIO"}};
  };
  const std::string table = folder_.file("t.csv");
  std::ofstream(table) << "mine";
  must(measure());
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", model_},
      {"measure", model_, "-o", folder_.file("out/p.h5")},
      {"organ", "measure", model_, "-o", folder_.file("organs")},
  };
  for (const auto& command : commands) {
    const ProgramResult failed = run_with(failing(model_), command);
    EXPECT_EQ(failed.exit_code, 74) << command.front() << failed.err;
    EXPECT_NE(failed.err.find("Input/output error"), std::string::npos) << failed.err;
  }
  const std::vector<std::string> worker = {"measure",     model_,     "-o",
                                           table + ".h5", "--worker", "0/2"};
  must(worker);
  const std::string parts = table + ".h5.parts";
  const std::vector<std::vector<std::string>> of_parts = {worker,
                                                          {"merge", parts, "-o", table + ".h5"}};
  for (const auto& command : of_parts) {
    const ProgramResult failed = run_with(failing(parts), command);
    EXPECT_EQ(failed.exit_code, 74) << failed.err;
  }
  const std::vector<std::string> exporting = {"export", results_, "--format", "csv", "-o", table};
  EXPECT_EQ(run_with(failing(table), exporting).exit_code, 74);
  EXPECT_EQ(file_text(table), "mine");
  EXPECT_EQ(run(exporting).exit_code, 73);
}

TEST_F(FaultsTest, ALockThatCannotBeReadIsNotTakenForStale) {
  fs::create_directory(results_ + ".parts");
  std::ofstream(lock_) << host_name() << " " << ::getpid() << " \n";
  for (const std::string calls : {"pread", "open"}) {
    const ProgramResult failed =
        run_with({{"CALLS", calls}, {"PATH", "*0of1.lock"}, {"AT", "1"}, {"DO", "EIO"}}, measure());
    EXPECT_EQ(failed.exit_code, 74) << calls << failed.err;
    EXPECT_NE(failed.err.find("Input/output error"), std::string::npos) << failed.err;
  }
  EXPECT_EQ(run(measure()).exit_code, 78);
  // A worker of three lives here, whatever a listing that breaks off says.
  fs::rename(lock_, results_ + ".parts/1of3.lock");
  const std::size_t count = count_calls("readdir", "*.parts", measure());
  ASSERT_GT(count, 3U);
  for (std::size_t at = 1; at <= count; ++at) {
    const ProgramResult failed = run_with(
        {{"CALLS", "readdir"}, {"PATH", "*.parts"}, {"AT", std::to_string(at)}, {"DO", "EIO"}},
        measure());
    EXPECT_TRUE(failed.exit_code == 74 || failed.exit_code == 78) << at << failed.err;
  }
}

TEST_F(FaultsTest, AReadErrorWhileTheFileIsReadBackNamesItself) {
  must(measure({"--tensors", "model.layers.1.mlp.experts.0.down_proj.weight"}));
  const std::string earlier = file_text(results_);
  const Plan read_back = {{"CALLS", "pread"}, {"PATH", "*/o.h5.tmp.*"}};
  const std::size_t count = count_calls("pread", "*/o.h5.tmp.*", measure());
  ASSERT_GT(count, 100U);
  // A run reads a few more or less than another: seconds compress to other lengths.
  for (const std::size_t at : {std::size_t{1}, count / 3, count / 2, count - count / 10}) {
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

}  // namespace
}  // namespace vindex::testing::faults_test
