// Owns a pass as a job whose rows hold nothing.
#include "matrix_pass.hpp"

#include "opening.hpp"

#include "backend/backend.hpp"
#include "engine/units/read_ahead_window.hpp"
#include <vindex/error.hpp>

#include <utility>

namespace vindex::engine {

namespace {

std::vector<RowWork> works_of(const input::ModelFiles& files,
                              const std::vector<PassMatrix>& matrices, bool rows_pass_by) {
  std::vector<RowWork> works;
  works.reserve(matrices.size());
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const PassMatrix& matrix = matrices[i];
    RowWork work;
    work.row = static_cast<std::int64_t>(i);
    work.matrices = {{0, work.row}};
    work.name = model::matrix_name(matrix.record);
    work.read_bytes = stored_bytes(matrix.record);
    work.cost = static_cast<double>(work.read_bytes);
    work.slot = staged_bytes(matrix.record).slot;
    work.workspace = work.min_workspace = matrix.decoded;
    work.streamed = matrix.decoded + matrix.encoded + work.read_bytes - matrix.record.codes.bytes;
    if (rows_pass_by && !matrix.record.transposed && can_pass_by(files, matrix.record)) {
      const std::uint64_t codes = matrix.record.codes.bytes;
      work.reading = Reading::kPassing;
      work.pieces =
          ReadAheadWindow::window_memory(codes) + matrix.encoded + work.read_bytes - codes;
    }
    works.push_back(std::move(work));
  }
  return works;
}

class PassJob final : public Job {
 public:
  PassJob(const ModelViews& models, const std::vector<RowWork>& works, const PassOptions& options,
          const UnitBody& body)
      : models_(models), works_(works), options_(options), body_(body) {}

  const ModelViews& models() const override { return models_; }
  std::int64_t row_count() const override { return std::ssize(works_); }
  RowFacts facts(std::int64_t row) const override {
    const RowWork& work = works_[static_cast<std::size_t>(row)];
    return {.name = printable(work.name),
            .unsupported = {},
            .bytes = work.read_bytes,
            .cost = work.cost};
  }
  std::vector<RowWork> works(const std::vector<std::int64_t>& /*rows*/) const override {
    return works_;
  }
  WorkerLayout worker_layout() const override {
    return {.calls = {options_.threads}, .in_order = options_.in_order};
  }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    return options_.staging ? options_.staging(bytes) : Job::make_staging(bytes);
  }
  void process(UnitStream& unit, std::size_t /*device*/, RowSink& rows) override {
    results::ResultRow row;
    row.status = MatrixStatus::kMeasured;
    row.index = unit.unit->rows.front();
    body_(static_cast<std::size_t>(row.index), unit);
    rows.push(std::move(row));
  }

 private:
  const ModelViews& models_;
  const std::vector<RowWork>& works_;
  const PassOptions& options_;
  const UnitBody& body_;
};

}  // namespace

RunOutcome pass_over(const ModelViews& models, const std::vector<RowWork>& works,
                     const PassOptions& options, const UnitBody& body, const RunHooks& hooks) {
  auto job = std::make_unique<PassJob>(models, works, options, body);
  JobRun run;
  run.ram_budget = options.ram_budget;
  run.reserved_bytes = options.reserved_bytes;
  // Where bodies read by themselves there is a reader too, the least there is.
  run.reader = models.empty() ? open_reader({.threads = 1, .io_uring = false}, {})
                              : open_reader(options.reading, {models.front().files});
  RunOutcome outcome = run_job(std::move(job), std::move(run), hooks);
  outcome.stopped = outcome.measured_now != outcome.total;  // or a body noticed it first
  return outcome;
}

RunOutcome pass_over(const input::ModelFiles& files, const std::vector<PassMatrix>& matrices,
                     const PassOptions& options, const PassBody& body, const RunHooks& hooks) {
  model::ModelIndex index;
  for (const PassMatrix& matrix : matrices) {
    index.matrices.push_back(matrix.record);
  }
  const auto work_on = [&](std::size_t i, UnitStream& unit) {
    unit.wait(0);
    unit.require_read(0);
    body(i, *unit.input(0));
    unit.require_read(0);  // what was read slab by slab, and files that changed meanwhile
    unit.input(0)->release();
  };
  return pass_over(ModelViews{{&files, &index}}, works_of(files, matrices, options.rows_pass_by),
                   options, work_on, hooks);
}

}  // namespace vindex::engine
