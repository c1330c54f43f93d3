// What jobs have in common: the row of a failure, and a unit that its job leaves early.
#include "core/process/stop.hpp"
#include "engine/run/job_runner.hpp"
#include "tests/engine/units/unit_stream_fixture.hpp"
#include "tests/results/cell_run.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace vindex::engine::job_test {
namespace {

TEST(FailedRow, SaysWhyAndHowTheRunWillEnd) {
  const results::ResultRow malformed =
      failed_row(std::make_exception_ptr(FormatError("E-TRUNCATED", "a file", "too short")));
  EXPECT_EQ(malformed.status, MatrixStatus::kFailed);
  EXPECT_EQ(malformed.error_class, "65");
  EXPECT_NE(malformed.reason.find("too short"), std::string::npos);
  EXPECT_EQ(failed_row(std::make_exception_ptr(std::runtime_error("odd"))).error_class, "70");
  results::ResultRow row;
  add_reason(row, "one");
  add_reason(row, "two");
  EXPECT_EQ(row.reason, "one; two");
}

// Its context is not to be trusted afterwards: every later row would be wrong or fail too.
TEST(FailedRow, IsNoneWhereADeviceFailed) {
  const auto error = std::make_exception_ptr(DeviceError("E-CUDA", "the device is gone"));
  EXPECT_THROW((void)failed_row(error), DeviceError);
  RowSink rows(1000);
  EXPECT_THROW(rows.push_failed(0, error), DeviceError);
  EXPECT_FALSE(rows.rows().pop_for(std::chrono::milliseconds(0)).has_value());
}

/// Every read lasts a little longer than the run to its results file.
class SlowSource final : public ByteSource {
 public:
  SlowSource(ByteSource& inner, std::string results)
      : inner_(inner), results_(std::move(results)) {}
  const std::string& name() const override { return inner_.name(); }
  std::uint64_t size() const override { return inner_.size(); }
  SourceIdentity identity() const override { return inner_.identity(); }
  void read_many(std::span<const ReadRequest> requests) override {
    for (int i = 0; i < 1000 && !std::filesystem::exists(results_); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    inner_.read_many(requests);
  }

 private:
  ByteSource& inner_;
  std::string results_;
};

/// Knows its row before the bytes of its matrices have arrived.
class HastyJob : public Job {
 public:
  HastyJob(const Model& model, const results::RunDescription& run)
      : run_(run), model_(model), views_({{&model.files, &model.index}}) {}
  const ModelViews& models() const override { return views_; }
  std::int64_t row_count() const override { return 1; }
  RowFacts facts(std::int64_t /*row*/) const override { return {.name = "row", .unsupported = {}}; }
  std::vector<RowWork> works(const std::vector<std::int64_t>& rows) const override {
    std::vector<RowWork> works;
    for (const std::int64_t row : rows) {
      RowWork& work = works.emplace_back();
      work.row = row;
      for (std::size_t i = 0; i < model_.index.matrices.size(); ++i) {
        work.matrices.push_back({0, static_cast<std::int64_t>(i)});
        work.read_bytes += stored_bytes(model_.index.matrices[i]);
      }
      work.slot = staged_bytes(model_.index.matrices.front()).slot;
    }
    return works;
  }
  WorkerLayout worker_layout() const override { return {.calls = {1}, .batch = 1, .held = 4}; }
  void process(UnitStream& unit, std::size_t /*device*/, RowSink& rows) override {
    rows.push(results::testing::cell_row(run_, unit.unit->rows.front()));
  }

 protected:
  const results::RunDescription& run_;

 private:
  const Model& model_;
  ModelViews views_;
};

// What reads under way write into, and what they tell their unit, outlives them.
TEST(JobRunner, WaitsForReadsOfAUnitThatEndedEarly) {
  const testing::TemporaryFolder folder;
  Model model(4);
  model.from_memory();
  model.use(std::make_unique<SlowSource>(*model.memory, folder / "out.h5"));
  const results::RunDescription description =
      results::testing::cell_run(results::FileSchema::kRouting, 1);
  JobRun run;
  run.output = folder / "out.h5";
  run.description = description;
  run.ram_budget = 64U << 20U;
  run.reader = std::make_unique<input::BulkReader>();
  const RunOutcome outcome =
      run_job(std::make_unique<HastyJob>(model, description), std::move(run), {});
  EXPECT_EQ(outcome.exit_code, ExitCode::kOk);
  EXPECT_EQ(outcome.measured_now, 1);
}

/// Computes until it is told to end.
class EndlessJob final : public HastyJob {
 public:
  using HastyJob::HastyJob;
  WorkerLayout worker_layout() const override { return {.calls = {3}, .batch = 1, .held = 4}; }
  void process(UnitStream& unit, std::size_t /*device*/, RowSink& /*rows*/) override {
    for (;;) {
      throw_if_stopped(unit.stop_token());
      std::this_thread::yield();
    }
  }
};

/// One large row that is held whole, beside rows that are read in pieces, several to a unit.
class MixedJob final : public HastyJob {
 public:
  using HastyJob::HastyJob;
  std::int64_t row_count() const override { return 3; }
  std::vector<RowWork> works(const std::vector<std::int64_t>& rows) const override {
    std::vector<RowWork> works = HastyJob::works(rows);
    for (RowWork& work : works) {
      if (work.row > 0) {
        work.kind = 7;
        work.reading = Reading::kPieces;
        work.pieces = 1;
      }
    }
    return works;
  }
  WorkerLayout worker_layout() const override { return {.calls = {2}, .batch = 1, .held = 1}; }
  void process(UnitStream& unit, std::size_t device, RowSink& rows) override {
    if (unit.unit->rows.front() == 0) {
      EXPECT_EQ(others_.wait_for(std::chrono::seconds(20)), std::future_status::ready)
          << "the rows in pieces were not begun beside it";
      return HastyJob::process(unit, device, rows);
    }
    ASSERT_EQ(unit.unit->rows.size(), 2U);
    begun_.set_value();
    for (const std::int64_t row : unit.unit->rows) {
      rows.push(results::testing::cell_row(run_, row));
    }
  }

 private:
  std::promise<void> begun_;
  std::future<void> others_ = begun_.get_future();
};

// They have no ring, so that they wait for nobody's.
TEST(JobRunner, RowsInPiecesAreBegunBesideALargeOne) {
  const testing::TemporaryFolder folder;
  Model model(4);
  model.from_memory();
  const results::RunDescription description =
      results::testing::cell_run(results::FileSchema::kRouting, 3);
  JobRun run;
  run.output = folder / "out.h5";
  run.description = description;
  run.ram_budget = 64U << 20U;
  run.reader = std::make_unique<input::BulkReader>();
  const RunOutcome outcome =
      run_job(std::make_unique<MixedJob>(model, description), std::move(run), {});
  EXPECT_EQ(outcome.exit_code, ExitCode::kOk);
  EXPECT_EQ(outcome.measured_now, 3);
}

std::ptrdiff_t thread_count_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(JobRunner, AStopLeavesNoThreadBehind) {
  const testing::TemporaryFolder folder;
  Model model(4);
  model.from_memory();
  const results::RunDescription description =
      results::testing::cell_run(results::FileSchema::kRouting, 1);
  const std::ptrdiff_t before = thread_count_now();
  JobRun run;
  run.output = folder / "out.h5";
  run.description = description;
  run.ram_budget = 64U << 20U;
  run.reader = std::make_unique<input::BulkReader>();
  std::stop_source stop;
  RunHooks hooks;
  hooks.stop = stop.get_token();
  hooks.progress = [&](const ProgressSnapshot&) { stop.request_stop(); };
  const RunOutcome outcome =
      run_job(std::make_unique<EndlessJob>(model, description), std::move(run), hooks);
  EXPECT_TRUE(outcome.stopped);
  EXPECT_EQ(outcome.exit_code, ExitCode::kStoppedEarly);
  EXPECT_EQ(thread_count_now(), before);
}

// A results file that cannot be published any more ends the run, and its workers with it.
TEST(JobRunner, AnErrorLeavesNoThreadBehind) {
  const testing::TemporaryFolder folder;
  Model model(4);
  model.from_memory();
  const results::RunDescription description =
      results::testing::cell_run(results::FileSchema::kRouting, 1);
  const std::ptrdiff_t before = thread_count_now();
  JobRun run;
  run.output = folder / "out.h5";
  run.description = description;
  run.ram_budget = 64U << 20U;
  run.reader = std::make_unique<input::BulkReader>();
  RunHooks hooks;
  hooks.progress = [&](const ProgressSnapshot&) { throw std::runtime_error("nobody listens"); };
  EXPECT_THROW(
      (void)run_job(std::make_unique<EndlessJob>(model, description), std::move(run), hooks),
      std::runtime_error);
  EXPECT_EQ(thread_count_now(), before);
}

}  // namespace
}  // namespace vindex::engine::job_test
