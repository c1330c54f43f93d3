// Where a run stands while it works: parts and heartbeats together.
#include "results/parts/heartbeat.hpp"

#include "results/runs/run_status.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace vindex::results::testing::heartbeat_test {
namespace {

using model::ResultTable;

ResultRow failed_row(std::int64_t index, const std::string& reason = "read error") {
  ResultRow row;
  row.index = index;
  row.status = MatrixStatus::kFailed;
  row.reason = reason;
  row.error_class = "74";
  return row;
}

TEST(Heartbeat, TextKeepsEverything) {
  Heartbeat heartbeat{
      .owner = "host 12 345",
      .sequence = 3,
      .matrices = {.done = 14, .failed = -1},
      .derived = {.done = 5, .failed = 2},
      .progress = {.elapsed_seconds = 2.5, .rate_per_second = 0.5, .eta_seconds = 9},
      .failed_rows = {{ResultTable::kMatrix, "a b.weight", 7, "failed", "E-READ: no, really"},
                      {ResultTable::kImatrix, "a b.weight", 7, "failed", "no activations"}},
      .mended_rows = {{ResultTable::kMatrix, "c d", -1}, {ResultTable::kProduct, "c d", -1}}};
  const Heartbeat read = parse_heartbeat(heartbeat_text(heartbeat));
  EXPECT_EQ(read.owner, heartbeat.owner);
  EXPECT_EQ(read.sequence, 3);
  EXPECT_EQ(read.matrices.done, 14);
  EXPECT_EQ(read.matrices.failed, -1);
  EXPECT_EQ(read.derived.done, 5);
  EXPECT_EQ(read.derived.failed, 2);
  EXPECT_EQ(read.progress.rate_per_second, 0.5);
  EXPECT_EQ(read.progress.eta_seconds, 9.0);
  ASSERT_EQ(read.failed_rows.size(), 2U);
  EXPECT_EQ(read.failed_rows[0].tensor, "a b.weight");
  EXPECT_EQ(read.failed_rows[0].slice, 7);
  EXPECT_EQ(read.failed_rows[0].reason, "E-READ: no, really");
  EXPECT_EQ(read.failed_rows[1].table, ResultTable::kImatrix);
  EXPECT_EQ(read.failed_rows[1].reason, "no activations");
  EXPECT_EQ(read.mended_rows, heartbeat.mended_rows);
  heartbeat.progress.eta_seconds = -1.0;
  EXPECT_LT(parse_heartbeat(heartbeat_text(heartbeat)).progress.eta_seconds, 0.0);
}

TEST(Heartbeat, NumbersOutOfReasonAreNotBelieved) {
  const Heartbeat read = parse_heartbeat(
      "owner a\ndone 9223372036854775807\nfailed -9223372036854775808\nrate -5\neta 1e300\n"
      "seconds nan\n");
  EXPECT_LE(read.matrices.done, std::int64_t{1} << 40U);
  EXPECT_GE(read.matrices.failed, -(std::int64_t{1} << 40U));
  EXPECT_EQ(read.progress.rate_per_second, 0.0);
  EXPECT_LT(read.progress.eta_seconds, 0.0);
  EXPECT_EQ(read.progress.elapsed_seconds, 0.0);
}

TEST(Heartbeat, AnyBytesAreReadWithoutHarm) {
  for (const std::string text :
       {"", "\n\n", "done", "done x", "done 99999999999999999999", "owner", "failed-row",
        "eta nan\n", "failed-row x y z", "mended-row", "\x1b[2J", "failed-row/",
        "failed-row/x 1 failed y", "mended-row/matrixx 1 y", "failed-rows 1 failed y",
        "failed-row 1 \x1b[2J n\x07\tr\xff"}) {
    const Heartbeat read = parse_heartbeat(text);
    EXPECT_TRUE(read.failed_rows.empty() || (text + " ").starts_with("failed-row ")) << text;
    for (const FailedRow& row : read.failed_rows) {
      EXPECT_EQ(printable(row.status + row.tensor + row.reason),
                row.status + row.tensor + row.reason);
    }
  }
}

TEST(Heartbeat, ARunOfOneProcessIsQuietForItsFirstSecond) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const auto store = open_run_store(path, sample_run(), {}, false);
  store->show_progress({.elapsed_seconds = 0.9});
  EXPECT_THROW((void)read_status(path), Error);
  store->show_progress({.elapsed_seconds = 1.0});
  EXPECT_EQ(read_status(path).workers, 1);
}

TEST(Heartbeat, StatusCountsFinishedRowsThatAreInNoPartYet) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto store = open_run_store(path, run, {}, false);
  store->show_progress({.elapsed_seconds = 1.0});
  EXPECT_EQ(read_status(path).workers, 1);
  EXPECT_EQ(read_status(path).done, 0);
  measure_rows(*store, run, 0, 4);
  store->publish_part();
  measure_rows(*store, run, 4, 6);
  store->add(failed_row(6));
  store->show_progress({.elapsed_seconds = 4.0, .rate_per_second = 1.5, .eta_seconds = 5.0});
  const RunStatus status = read_status(path);
  EXPECT_EQ(status.done, 6);
  EXPECT_EQ(status.failed, 1);
  EXPECT_EQ(status.left, 7);
  EXPECT_EQ(status.workers, 1);
  EXPECT_EQ(status.gone, 0);
  EXPECT_EQ(status.rate_per_second, 1.5);
  EXPECT_EQ(status.eta_seconds, 5.0);
  ASSERT_EQ(status.failed_rows.size(), 1U);
  EXPECT_EQ(status.failed_rows[0].tensor, printable(run.matrices[6].tensor));
  EXPECT_EQ(status.failed_rows[0].reason, "read error");
  EXPECT_EQ(status.failed_rows[0].status, "failed");
  // Published since the heartbeat was written: counted once.
  store->publish_part();
  EXPECT_EQ(read_status(path).done, 6);
  EXPECT_EQ(read_status(path).failed, 1);
  EXPECT_EQ(read_status(path).failed_rows.size(), 1U);
  measure_rows(*store, run, 6, 14);
  store->publish_file();
  EXPECT_EQ(read_status(path).state, "complete");
  EXPECT_EQ(read_status(path).workers, 0);
  EXPECT_FALSE(std::filesystem::exists(path + ".parts"));
}

TEST(Heartbeat, ARowMeasuredAgainMovesFromFailedToDone) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 2, 5);
    store->add(failed_row(0, "first"));
    store->add(failed_row(1, "second"));
    store->publish_part();
  }
  EXPECT_EQ(read_status(path).failed, 2);
  EXPECT_EQ(read_status(path).workers, 0);
  const auto store = open_run_store(path, run, {}, false);
  measure_rows(*store, run, 0, 1);
  store->show_progress({.elapsed_seconds = 1.0});
  const RunStatus status = read_status(path);
  EXPECT_EQ(status.done, 4);
  EXPECT_EQ(status.failed, 1);
  EXPECT_EQ(status.left, 9);
  ASSERT_EQ(status.failed_rows.size(), 1U);
  EXPECT_EQ(status.failed_rows[0].reason, "second");
}

TEST(Heartbeat, ADerivedRowIsNotTheMatrixOfItsName) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  RunDescription run = sample_run();
  const auto matrices = static_cast<std::int64_t>(run.matrices.size());
  const std::int64_t of = matrices - 1;
  run.matrices.push_back(run.matrices.back());
  run.matrices.back().table = ResultTable::kImatrix;
  run.fingerprint.emplace_back("derived.imatrix", "sha256 1");
  {
    const auto store = open_run_store(path, run, {}, false);
    store->add(failed_row(of, "the matrix"));
    store->add(failed_row(matrices, "the weighted one"));
    store->publish_part();
  }
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, of, of + 1);
    store->show_progress({.elapsed_seconds = 1.0});
    const RunStatus mended = read_status(path);
    EXPECT_EQ(mended.done, 1);
    EXPECT_EQ(mended.failed, 0);
    EXPECT_EQ(mended.derived_failed, 1);
    ASSERT_EQ(mended.failed_rows.size(), 1U) << "only the matrix is mended";
    EXPECT_EQ(mended.failed_rows[0].table, ResultTable::kImatrix);
    EXPECT_EQ(mended.failed_rows[0].reason, "the weighted one");
    store->publish_part();
  }
  const auto store = open_run_store(path, run, {}, false);
  measure_rows(*store, run, matrices, matrices + 1);
  store->add(failed_row(of, "again"));
  store->show_progress({.elapsed_seconds = 1.0});
  const RunStatus status = read_status(path);
  EXPECT_EQ(status.derived_done, 1) << "finished and in no part yet";
  EXPECT_EQ(status.derived_failed, 0);
  EXPECT_EQ(status.derived_left, 0);
  EXPECT_EQ(status.failed, 1);
  ASSERT_EQ(status.failed_rows.size(), 1U);
  EXPECT_EQ(status.failed_rows[0].table, ResultTable::kMatrix);
  EXPECT_EQ(status.failed_rows[0].reason, "again");
}

TEST(Heartbeat, WorkersAddUpAndTheDeadAreTold) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const auto first = open_run_store(path, run, {.index = 0, .count = 3}, false);
  const auto second = open_run_store(path, run, {.index = 1, .count = 3}, false);
  measure_rows(*first, run, 0, 1);
  measure_rows(*second, run, 1, 3);
  first->show_progress({.rate_per_second = 1.0, .eta_seconds = 3.0});
  second->show_progress({.rate_per_second = 2.0, .eta_seconds = 7.0});
  const pid_t child = ::fork();
  if (child == 0) {
    const auto third = open_run_store(path, run, {.index = 2, .count = 3}, false);
    measure_rows(*third, run, 3, 4);
    third->show_progress({.rate_per_second = 100.0});
    ::_exit(0);  // as a kill does: nothing is tidied up
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  const RunStatus status = read_status(path);
  EXPECT_EQ(status.done, 3);
  EXPECT_EQ(status.workers, 2);
  EXPECT_EQ(status.gone, 1);
  EXPECT_EQ(status.rate_per_second, 3.0);
  EXPECT_EQ(status.eta_seconds, 7.0);
}

TEST(Heartbeat, TheNamesOfFailedRowsAreBoundedAndTheCountIsNot) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  RunDescription run = sample_run();
  const std::vector<model::MatrixRecord> few = run.matrices;
  for (std::int32_t copy = 1; copy < 4; ++copy) {
    for (model::MatrixRecord record : few) {
      record.tensor += "." + std::to_string(copy);
      run.matrices.push_back(record);
    }
  }
  const auto store = open_run_store(path, run, {}, false);
  for (std::size_t i = 0; i < run.matrices.size(); ++i) {
    store->add(failed_row(static_cast<std::int64_t>(i), std::string(3000, 'r')));
  }
  store->show_progress({.elapsed_seconds = 1.0});
  const RunStatus status = read_status(path);
  EXPECT_EQ(status.failed, static_cast<std::int64_t>(run.matrices.size()));
  EXPECT_EQ(status.failed_rows.size(), kMaxFailedRows);
}

}  // namespace
}  // namespace vindex::results::testing::heartbeat_test
