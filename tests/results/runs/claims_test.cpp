// Shares that processes claim from one folder: each by one of them, a dead one's by another, one
// that was measured twice merged once; and how the workers of a run look from outside.
#include "core/files/file_clock.hpp"
#include "core/files/process_name.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/parts/share_record.hpp"
#include "results/parts/worker_states.hpp"
#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "tests/results/hdf5/robustness_fixture.hpp"
#include "tests/results/sample_run.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace vindex::results::testing::claims_test {
namespace {

constexpr std::int32_t kShares = 7;  // of two rows each

WorkerShare claiming() {
  WorkerShare share{.count = kShares, .claims = true};
  for (int row = 0; row < 14; ++row) {
    share.owners.push_back(row / 2);
  }
  return share;
}

class Claims : public ::testing::Test {
 protected:
  std::unique_ptr<RunStore> open() { return open_run_store(out_, run_, claiming(), false); }
  /// Measures what is claimed of `share`.
  void measure(RunStore& store, std::int32_t share) {
    measure_rows(store, run_, 2 * share, 2 * share + 2);
  }
  /// Claims and measures everything that can be had; how many shares that were.
  int work(RunStore& store) {
    int taken = 0;
    for (std::int32_t share = 0; share < kShares; ++share) {
      if (store.take_share(share) == ShareState::kTaken) {
        for (std::int64_t row = 2 * share; row < 2 * share + 2; ++row) {
          if (!store.done()[static_cast<std::size_t>(row)]) {
            store.add(sample_row(run_, row));
          }
        }
        store.finish_share(share);
        ++taken;
      }
    }
    return taken;
  }
  void expect_merge_of_one_run() {
    merge_parts({parts_}, out_);
    EXPECT_EQ(validate_file(out_), std::vector<std::string>{});
    EXPECT_EQ(read_status(out_).state, "complete");
    EXPECT_EQ(files_in(folder_.path()), std::vector<std::string>{"out.h5"});
  }
  void write_claim(std::int32_t share, const std::string& owner, std::chrono::seconds age) {
    fs::create_directories(parts_ + "/claims");
    const std::string path = parts_ + "/claims/" + worker_tag(share, kShares) + ".lock";
    write_file(path, owner + "\n");
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  }

  TestFolder folder_;
  const std::string out_ = folder_ / "out.h5";
  const std::string parts_ = out_ + ".parts";
  const RunDescription run_ = sample_run();
};

TEST_F(Claims, AShareIsOneProcesssAndItsRecordTellsTheOthers) {
  const auto store = open();
  ASSERT_EQ(store->take_share(2), ShareState::kTaken);
  const int other = in_child([&] {
    const auto second = open();
    const bool held = second->take_share(2) == ShareState::kElsewhere;
    _exit(held && work(*second) == kShares - 1 ? 0 : 1);
  });
  EXPECT_EQ(other, 0);
  EXPECT_EQ(store->take_share(0), ShareState::kFinished);
  measure(*store, 2);
  store->finish_share(2);
  EXPECT_EQ(record_tags(parts_).size(), static_cast<std::size_t>(kShares));
  EXPECT_EQ(read_status(out_).left, 0);
  EXPECT_EQ(read_status(out_).state, "finished");  // and not running: nobody does
}

TEST_F(Claims, AllSharesOfSeveralProcessesMakeTheFileOfOne) {
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      const auto store = open();
      work(*store);
      _exit(0);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  {
    const auto store = open();
    work(*store);
  }
  expect_merge_of_one_run();
}

TEST_F(Claims, WhatADeadProcessHadIsTakenOverAndItsPublishedRowsAreKept) {
  in_child([&] {
    const auto store = open();
    store->take_share(1);
    measure(*store, 1);
    store->finish_share(1);
    store->take_share(4);
    measure_rows(*store, run_, 8, 9);
    store->publish_part();
    store->show_progress({.rate_per_second = 1.0, .own_done = 3});
    kill(getpid(), SIGKILL);
  });
  const RunStatus dead = read_status(out_);
  EXPECT_EQ(dead.done, 3);
  EXPECT_EQ(dead.shares_total, kShares);
  EXPECT_EQ(dead.shares_done, 1);
  ASSERT_EQ(dead.worker_list.size(), 1U);
  EXPECT_EQ(dead.worker_list[0].state, WorkerState::kDead);
  EXPECT_EQ(dead.worker_list[0].own_done, 3);
  const auto store = open();
  EXPECT_TRUE(store->done()[8]);
  EXPECT_EQ(store->take_share(1), ShareState::kFinished);
  EXPECT_EQ(work(*store), kShares - 1);
  EXPECT_EQ(read_record(parts_, worker_tag(4, kShares))->parts.size(), 2U)
      << "a part of each process";
}

/// The process is on another machine, so only the age of its claim tells; the age is a difference
/// of two times of the file system.
TEST_F(Claims, AClaimOfAnotherMachineIsTakenOverWhereItShowsNoLife) {
  const auto store = open();
  write_claim(0, "elsewhere 17 1", std::chrono::seconds(kClaimSeconds - 60));
  write_claim(1, "elsewhere 17 1", std::chrono::seconds(kClaimSeconds + 60));
  write_claim(2, "elsewhere 17 1", std::chrono::seconds(-3600));  // stamped by a clock ahead
  EXPECT_EQ(store->take_share(0), ShareState::kElsewhere);
  EXPECT_EQ(store->take_share(1), ShareState::kTaken);
  EXPECT_EQ(store->take_share(2), ShareState::kElsewhere);
}

TEST_F(Claims, AShareThatTwoHadIsMergedOnce) {
  {
    const auto store = open();
    work(*store);
  }
  // One that slept through the take-over publishes what it has, in other bits, and records nothing.
  const std::string record = parts_ + "/" + worker_tag(3, kShares) + ".done";
  const std::string first = read_file(record);
  const std::vector<std::string> own_parts = parse_record(first).value().parts;
  fs::remove(record);
  for (const std::string& part : own_parts) {
    fs::rename(parts_ + "/" + part, folder_ / part);
  }
  {
    const auto store = open();
    ASSERT_EQ(store->take_share(3), ShareState::kTaken);
    ResultRow row = sample_row(run_, 6);
    row.sigma[0] *= 1.0 + 1e-15;
    store->add(std::move(row));
    store->publish_part();
  }
  for (const std::string& part : own_parts) {
    fs::rename(folder_ / part, parts_ + "/" + part);
  }
  write_file(record, first);
  EXPECT_EQ(read_status(out_).left, 0);
  expect_merge_of_one_run();
}

TEST_F(Claims, KilledBetweenPartAndRecordNothingIsMeasuredAgain) {
  {
    const auto store = open();
    work(*store);
  }
  for (const std::string& tag : record_tags(parts_)) {
    fs::remove(parts_ + "/" + tag + ".done");
  }
  const auto store = open();
  for (std::int64_t row = 0; row < 14; ++row) {
    EXPECT_TRUE(store->done()[static_cast<std::size_t>(row)]);
  }
  EXPECT_EQ(work(*store), kShares) << "claimed to be recorded";
  EXPECT_EQ(work(*store), 0);
  EXPECT_EQ(record_tags(parts_).size(), static_cast<std::size_t>(kShares));
}

TEST_F(Claims, AFailedRowIsTriedAgainByTheNextRunAlone) {
  {
    const auto store = open();
    ASSERT_EQ(store->take_share(0), ShareState::kTaken);
    measure_rows(*store, run_, 0, 1);
    ResultRow failed;
    failed.index = 1;
    failed.status = MatrixStatus::kFailed;
    failed.error_class = "74";
    store->add(std::move(failed));
    store->finish_share(0);
    EXPECT_EQ(store->take_share(0), ShareState::kFinished);
  }
  const auto store = open();
  EXPECT_FALSE(store->done()[1]);
  EXPECT_EQ(work(*store), kShares);
  EXPECT_EQ(store->take_share(0), ShareState::kFinished);
  EXPECT_EQ(read_status(out_).failed, 0);
}

TEST_F(Claims, ClaimersAndWorkersWithFixedSharesExcludeEachOther) {
  const auto store = open();
  EXPECT_EQ(outcome_of([&] { open_run_store(out_, run_, {.index = 0, .count = 2}, false); }).id,
            "E-RUN-LOCKED");
  EXPECT_EQ(outcome_of([&] { open_run_store(out_, run_, {}, false); }).id, "E-RUN-LOCKED");
}

TEST(FileClock, IsThatOfTheFilesAndLeavesNothing) {
  const TestFolder folder;
  write_file(folder / "file", "x");
  const auto written = fs::file_time_type::clock::to_sys(fs::last_write_time(folder / "file"));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(written.time_since_epoch()).count();
  EXPECT_GE(FileClock(folder.path()).now(), seconds);
  EXPECT_LE(FileClock(folder.path()).now(), seconds + 60);
  EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"file"});
  EXPECT_GT(FileClock(folder / "absent").now(), 0);
}

WorkerStatus at_pace(double pace, double seen = 1.0) {
  WorkerStatus worker;
  worker.pace = pace;
  worker.seen_seconds = seen;
  return worker;
}

TEST(WorkerStates, SlowIsBelowHalfOfTheMedianPaceOrSilent) {
  std::vector<WorkerStatus> workers = {at_pace(10), at_pace(8), at_pace(3.9), at_pace(0),
                                       at_pace(9, 61)};
  workers.push_back(at_pace(1));
  workers.back().state = WorkerState::kDead;
  mark_slow(workers);
  std::vector<std::string> states;
  for (const WorkerStatus& worker : workers) {
    states.emplace_back(worker_state_name(worker.state));
  }
  EXPECT_EQ(states, (std::vector<std::string>{"alive", "alive", "slow", "alive", "slow", "dead"}));
  std::vector<WorkerStatus> one = {at_pace(2)};
  mark_slow(one);
  EXPECT_EQ(one[0].state, WorkerState::kAlive);
}

/// Of five: one at work, one done, one stopped early, one killed, one that has not begun.
TEST(WorkerStates, EveryWorkerOfARunHasAState) {
  const TestFolder folder;
  const std::string out = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto open = [&](std::int32_t index) {
    WorkerShare share{.index = index, .count = 5};
    for (int row = 0; row < 14; ++row) {
      share.owners.push_back(row / 3);
    }
    return open_run_store(out, run, share, false);
  };
  {
    const auto done = open(1);
    measure_rows(*done, run, 3, 6);
    done->publish_file();
  }
  {
    const auto stopped = open(2);
    measure_rows(*stopped, run, 6, 7);
    stopped->publish_file();
  }
  in_child([&] {
    const auto killed = open(3);
    killed->show_progress({.own_total = 3, .own_done = 1});
    kill(getpid(), SIGKILL);
  });
  const auto works = open(0);
  works->show_progress({.rate_per_second = 2.0, .pace = 5.0, .own_total = 3, .own_done = 2});
  const RunStatus status = read_status(out);
  EXPECT_EQ(status.workers, 1);
  EXPECT_EQ(status.gone, 1);
  EXPECT_EQ(status.shares_total, 0);
  ASSERT_EQ(status.worker_list.size(), 5U);
  std::vector<std::string> states;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(status.worker_list[i].tag, worker_tag(static_cast<std::int32_t>(i), 5));
    states.emplace_back(worker_state_name(status.worker_list[i].state));
  }
  EXPECT_EQ(states, (std::vector<std::string>{"alive", "done", "stopped", "dead", "not begun"}));
  EXPECT_EQ(status.worker_list[0].host, host_name());
  EXPECT_EQ(status.worker_list[0].pid, getpid());
  EXPECT_EQ(status.worker_list[0].own_total, 3);
  EXPECT_EQ(status.worker_list[0].own_done, 2);
  EXPECT_LE(status.worker_list[0].seen_seconds, 30.0);
}

}  // namespace
}  // namespace vindex::results::testing::claims_test
