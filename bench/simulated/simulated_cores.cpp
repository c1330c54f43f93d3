// Owns the storage and the back end that sleep, and the clocks around the real job.
#include "simulated_cores.hpp"

#include "commands/spectra/spectrum_job.hpp"
#include "cpu/cpu_backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_runner.hpp"
#include "input/local/file_source.hpp"
#include "throughput/sampling.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace vindex::throughput {

namespace {

using Clock = std::chrono::steady_clock;

/// As a model in files has them.
constexpr std::int64_t kTensorsPerShard = 512;
constexpr std::uint64_t kShardBytes = std::uint64_t{1} << 40U;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Processor time of the threads of one kind, each as of its last visit.
class ThreadClocks {
 public:
  /// Of the calling thread; a thread belongs to one of these.
  void visit() {
    thread_local std::pair<ThreadClocks*, std::atomic<double>*> own{nullptr, nullptr};
    if (own.first != this) {
      const std::lock_guard lock(mutex_);
      own = {this, times_.emplace_back(std::make_unique<std::atomic<double>>()).get()};
    }
    own.second->store(thread_seconds(), std::memory_order_relaxed);
  }
  double sum() const {
    const std::lock_guard lock(mutex_);
    double sum = 0.0;
    for (const auto& time : times_) {
      sum += *time;
    }
    return sum;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::atomic<double>>> times_;
};

/// Requests share one rate, as those to a drive do.
class SleepingStorage final : public input::ReadCalls {
 public:
  SleepingStorage(double bytes_per_second, const std::string& copied)
      : rate_(bytes_per_second),
        copied_(copied.empty() ? nullptr : input::open_file_source(copied)) {}
  int open_direct(int descriptor) override { return ::dup(descriptor); }
  input::Residency residency(int /*descriptor*/, std::uint64_t /*offset*/,
                             std::uint64_t /*bytes*/) override {
    return copied_ != nullptr ? input::Residency::kResident : input::Residency::kAbsent;
  }
  std::int64_t read(int descriptor, std::byte* into, std::size_t bytes,
                    std::uint64_t offset) override {
    if (copied_ != nullptr) {
      const std::uint64_t room = copied_->size() - std::min<std::uint64_t>(bytes, copied_->size());
      (void)ReadCalls::read(copied_->descriptor(), into, bytes, room > 0 ? offset % room : 0);
      (void)descriptor;
      readers.visit();
      return static_cast<std::int64_t>(bytes);
    }
    Clock::time_point end;
    {
      const std::lock_guard lock(mutex_);
      end = free_ = std::max(free_, Clock::now()) + duration_of(static_cast<double>(bytes) / rate_);
    }
    sleep_until(end);
    readers.visit();
    return static_cast<std::int64_t>(bytes);
  }

  ThreadClocks readers;

 private:
  double rate_;
  std::unique_ptr<ByteSource> copied_;
  std::mutex mutex_;
  Clock::time_point free_{};
};

/// True on the thread that begins units.
thread_local bool begins_units = false;

class SleepingSource final : public ByteSource {
 public:
  SleepingSource(std::string name, int descriptor, ThreadClocks& beginner)
      : name_(std::move(name)), descriptor_(descriptor), beginner_(beginner) {}
  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return kShardBytes; }
  /// Asks the system, as a file does.
  SourceIdentity identity() const override {
    struct stat status {};
    (void)::fstat(descriptor_, &status);
    return {kShardBytes, "simulated"};
  }
  void read_many(std::span<const ReadRequest> /*requests*/) override {
    throw SystemError("E-READ", EIO, "a simulated file is read through its descriptor");
  }
  int descriptor() const override {
    if (begins_units) {
      beginner_.visit();
    }
    return descriptor_;
  }

 private:
  std::string name_;
  int descriptor_;
  ThreadClocks& beginner_;
};

/// What solvers make of a shape: a spectrum like noise with a head, the same for every matrix but
/// for its scale, so that the file is no smaller than a real one.
MatrixReport template_report(const SimulatedShape& shape) {
  const std::int64_t count = std::min(shape.rows, shape.cols);
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.method = "gram32+trd32+cpu";
  report.sigma_error = 1e-6;
  report.check_trace = report.check_gram = 0.0;
  double squares = 0.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const double at = static_cast<double>(k) / static_cast<double>(count);
    report.sigma.push_back(2.0 - at + 4.0 / static_cast<double>(k + 1) +
                           1e-9 * std::sin(static_cast<double>(k)));
    squares += report.sigma.back() * report.sigma.back();
  }
  decode::Moments& moments = report.moments;
  moments.count = shape.rows * shape.cols;
  moments.sum_squares = moments.m2 = squares;
  moments.m4 = 3.0 * squares * squares / static_cast<double>(moments.count);
  moments.min = -1.0;
  moments.max = 1.0;
  return report;
}

struct Sums {
  std::atomic<double> solve{0.0}, oversleep{0.0}, wait_unit{0.0}, wait_bytes{0.0},
      wait_hand_over{0.0};
  std::atomic<std::int64_t> solved{0};
  /// Since the first unit.
  std::atomic<double> last_solve{0.0};
};

/// When the calling worker entered and left the solver.
struct SolverVisit {
  double entered = 0.0, left = 0.0;
};
thread_local SolverVisit solver_visit;

class SleepingBackend final : public Backend {
 public:
  SleepingBackend(const SimulatedRun& run, Sums& sums)
      : workers_(run.workers), sums_(sums), real_(cpu::make_cpu_backend(1)) {
    for (const SimulatedShape& shape : run.period) {
      shapes_.emplace_back(shape, template_report(shape));
    }
  }
  BackendInfo info() const override { return {"cpu", "simulated", {}}; }
  BackendLimits limits() const override {
    BackendLimits limits = real_->limits();
    limits.concurrent_calls = workers_;
    return limits;
  }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    return real_->make_staging(bytes);
  }
  std::uint64_t workspace_bytes(const decode::Encoding& encoding, std::int64_t rows,
                                std::int64_t cols, const MeasureOptions& options,
                                InputBytes input) const override {
    return real_->workspace_bytes(encoding, rows, cols, options, input);
  }
  void measure(std::span<MatrixInput* const> batch, const MeasureOptions& /*options*/,
               std::uint64_t /*workspace_limit*/, std::span<MatrixReport> out) override {
    solver_visit.entered = wall_seconds();
    double asked = 0.0;
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      (void)batch[i]->row_slab(0, batch[i]->rows());
      const auto& [shape, report] = of(batch[i]->rows(), batch[i]->cols());
      asked += shape.solve_seconds;
      sleep_until(begin + duration_of(asked));
      out[i] = report;
      const double scale = 1.0 + 1e-3 * static_cast<double>(sums_.solved++ % 1000);
      for (double& value : out[i].sigma) {
        value *= scale;
      }
      out[i].moments.sum_squares *= scale * scale;
    }
    solver_visit.left = wall_seconds();
    sums_.solve += asked;
    sums_.oversleep += solver_visit.left - solver_visit.entered - asked;
  }
  void decode(const decode::EncodedMatrix& /*matrix*/, std::span<float> /*out*/) override {
    expects(false, "a simulated back end decodes nothing");
  }

 private:
  const std::pair<SimulatedShape, MatrixReport>& of(std::int64_t rows, std::int64_t cols) const {
    return *std::find_if(shapes_.begin(), shapes_.end(), [&](const auto& each) {
      return each.first.rows == rows && each.first.cols == cols;
    });
  }

  std::int32_t workers_;
  Sums& sums_;
  std::unique_ptr<Backend> real_;
  std::vector<std::pair<SimulatedShape, MatrixReport>> shapes_;
};

/// Reports outlive the back end: they are its own.
std::unique_ptr<Backend> device_of(const SimulatedRun& run, Sums& sums) {
  auto reports = std::make_shared<std::vector<std::pair<SimulatedShape, MatrixReport>>>();
  for (const SimulatedShape& shape : run.period) {
    reports->emplace_back(shape, template_report(shape));
  }
  return make_simulated_device(
      *run.device,
      [reports](std::int64_t rows, std::int64_t cols) -> const MatrixReport& {
        return std::find_if(reports->begin(), reports->end(),
                            [&](const auto& each) {
                              return each.first.rows == rows && each.first.cols == cols;
                            })
            ->second;
      },
      [&sums](const DeviceCall& call) {
        solver_visit = {.entered = call.entered, .left = call.left};
        sums.solve += call.asked;
      });
}

struct Clocks {
  Sums sums;
  ThreadClocks beginner, workers;
  double begun = 0.0;             ///< when workers were started
  double process_at_begin = 0.0;  ///< processor time then
  double writer_at_begin = 0.0;
  double writer_waits = 0.0;
  double writer_processor = 0.0;
  double processor = 0.0;
  double row_was_told = 0.0;  ///< when the writer was done with a row
  double staging_processor = 0.0;
  std::uint64_t staging_bytes = 0;
  std::int64_t staging_made = 0;
};

/// The real job, with clocks around what the engine calls.
class TimedJob final : public engine::Job {
 public:
  TimedJob(std::unique_ptr<engine::Job> inner, Clocks& clocks)
      : inner_(std::move(inner)), clocks_(clocks) {}
  const engine::ModelViews& models() const override { return inner_->models(); }
  std::int64_t row_count() const override { return inner_->row_count(); }
  engine::RowFacts facts(std::int64_t row) const override {
    if (clocks_.row_was_told > 0.0) {  // a row was taken
      clocks_.writer_waits += wall_seconds() - clocks_.row_was_told;
      clocks_.row_was_told = 0.0;
    }
    return inner_->facts(row);
  }
  std::vector<engine::RowWork> works(const std::vector<std::int64_t>& rows) const override {
    return inner_->works(rows);
  }
  engine::WorkerLayout worker_layout() const override { return inner_->worker_layout(); }
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    begins_units = true;
    ++clocks_.staging_made;
    clocks_.staging_bytes += bytes;
    const double before = thread_seconds();
    auto made = inner_->make_staging(bytes);
    clocks_.staging_processor += thread_seconds() - before;
    return made;
  }
  void begin(engine::RowSink& rows, std::uint64_t queue_bytes) override {
    clocks_.begun = clocks_.row_was_told = wall_seconds();
    clocks_.process_at_begin = process_seconds();
    clocks_.writer_at_begin = thread_seconds();
    inner_->begin(rows, queue_bytes);
  }
  void process(engine::UnitStream& unit, std::size_t device, engine::RowSink& rows) override {
    thread_local std::pair<const TimedJob*, double> left{nullptr, 0.0};
    const double entered = wall_seconds();
    inner_->process(unit, device, rows);
    const double now = wall_seconds();
    Sums& sums = clocks_.sums;
    sums.wait_unit += entered - (left.first == this ? left.second : clocks_.begun);
    sums.wait_bytes += solver_visit.entered - entered;
    sums.wait_hand_over += now - solver_visit.left;
    const double solved = solver_visit.left - clocks_.begun;
    for (double last = sums.last_solve; last < solved;) {
      if (sums.last_solve.compare_exchange_weak(last, solved)) {
        break;
      }
    }
    left = {this, now};
    clocks_.workers.visit();
  }
  void finish() override { inner_->finish(); }

 private:
  std::unique_ptr<engine::Job> inner_;
  Clocks& clocks_;
};

commands::SpectraModel make_model(const SimulatedRun& run, int descriptor, ThreadClocks& beginner) {
  commands::SpectraModel model;
  std::vector<const SimulatedShape*> period;
  for (const SimulatedShape& shape : run.period) {
    period.insert(period.end(), static_cast<std::size_t>(shape.repeats), &shape);
  }
  std::uint64_t offset = 0;
  for (std::int64_t i = 0; i < run.matrices; ++i) {
    const SimulatedShape& shape = *period[static_cast<std::size_t>(i) % period.size()];
    if (i % kTensorsPerShard == 0) {
      input::Shard& shard = model.files.shards.emplace_back();
      shard.path = shard.file_name = fmt::format("simulated-{:05}", i / kTensorsPerShard);
      shard.source = std::make_unique<SleepingSource>(shard.path, descriptor, beginner);
      shard.identity = shard.source->identity();
      offset = 4096 + 77;  // of a header: nothing is aligned
    }
    const auto add = [&](std::uint64_t bytes, std::int64_t rows, std::int64_t cols) {
      input::StoredTensor& stored = model.files.tensors.emplace_back();
      stored.shard = static_cast<std::int32_t>(std::ssize(model.files.shards)) - 1;
      stored.offset = std::exchange(offset, offset + bytes);
      stored.bytes = bytes;
      return model::TensorPart{static_cast<std::int32_t>(std::ssize(model.files.tensors)) - 1,
                               stored.offset, bytes, rows, cols};
    };
    model::MatrixRecord& matrix = model.index.matrices.emplace_back();
    matrix.layer = static_cast<std::int32_t>(i / 1152);
    matrix.expert = static_cast<std::int32_t>(i / 3 % 384);
    const char* const roles[] = {"gate_proj", "up_proj", "down_proj"};
    matrix.role = roles[i % 3];
    matrix.block = model::Block::kRoutedExpert;
    matrix.tensor = fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", matrix.layer,
                                matrix.expert, matrix.role);
    matrix.shard = model.files.shards.back().file_name;
    matrix.rows = shape.rows;
    matrix.cols = shape.cols;
    const auto count = static_cast<std::uint64_t>(shape.rows * shape.cols);
    if (shape.is_fp8) {
      const std::int64_t scale_rows = (shape.rows + 127) / 128;
      const std::int64_t scale_cols = (shape.cols + 127) / 128;
      matrix.encoding = {.scheme = decode::Scheme::kFp8Block,
                         .type = decode::ElementType::kF8E4M3,
                         .block_rows = 128,
                         .block_cols = 128,
                         .label = "F8_E4M3/128x128"};
      matrix.codes = add(count, 0, 0);
      matrix.companions.push_back(
          {decode::CompanionRole::kScale, decode::ElementType::kF32,
           add(static_cast<std::uint64_t>(scale_rows * scale_cols) * sizeof(float), scale_rows,
               scale_cols)});
    } else {
      matrix.encoding = decode::plain_encoding(decode::ElementType::kBF16);
      matrix.codes = add(count * 2, 0, 0);
    }
    matrix.tensor_record = static_cast<std::int32_t>(i);
    model.selected.push_back(i);
    model.index.tensors.push_back({.name = matrix.tensor,
                                   .stored = {matrix.codes.tensor},
                                   .block = matrix.block,
                                   .role = matrix.role,
                                   .layer = matrix.layer,
                                   .shape = {shape.rows, shape.cols},
                                   .encoding = matrix.encoding.label,
                                   .count = shape.rows * shape.cols,
                                   .in_matrix = true,
                                   .reason = {}});
  }
  return model;
}

results::RunDescription describe(const engine::SelectedModel& model) {
  results::RunDescription run = engine::begin_description(
      results::FileSchema::kResults, "simulated", "Simulated spectra", {"many_cores_bench"});
  run.mode = "default";
  run.backend = "cpu";
  run.settings_json = run.inputs_json = run.environment_json = run.config_json = "{}";
  run.matrices = model.index.matrices;
  run.tensors = model.index.tensors;
  run.tensor_stored_names.resize(run.tensors.size(), "weight");
  return run;
}

/// A descriptor that nothing is read from.
struct Descriptor {
  int number = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number); }
};

}  // namespace

void sleep_until(Clock::time_point when) {
  // The kernel may delay a sleep by 50 us otherwise.
  thread_local const bool is_sharp = ::prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  (void)is_sharp;
  std::this_thread::sleep_until(when);
}

SimulatedTimes simulate(const SimulatedRun& run) {
  const double start = wall_seconds();
  const Descriptor descriptor;
  Clocks clocks;
  SleepingStorage storage(run.bytes_per_second, run.copied_file);
  commands::SpectraModel model = make_model(run, descriptor.number, clocks.beginner);
  engine::JobRun job_run;
  job_run.output = run.output;
  job_run.description = describe(model);
  job_run.restart = true;
  job_run.ram_budget = run.ram_budget;
  job_run.reader = std::make_unique<input::BulkReader>(input::BulkReadOptions{}, &storage);
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(run.device ? device_of(run, clocks.sums)
                                : std::make_unique<SleepingBackend>(run, clocks.sums));
  engine::RunHooks hooks;
  hooks.progress = [&](const engine::ProgressSnapshot& snapshot) {
    clocks.row_was_told = wall_seconds();
    clocks.writer_processor = thread_seconds() - clocks.writer_at_begin;
    if (snapshot.done.matrices == run.matrices) {
      clocks.processor = process_seconds() - clocks.process_at_begin;
    }
  };
  auto job = std::make_unique<TimedJob>(
      std::make_unique<commands::SpectrumJob>(std::move(model), std::move(backends),
                                              MeasureOptions{}, commands::RowOptions{}),
      clocks);
  const engine::RunOutcome outcome = engine::run_job(std::move(job), std::move(job_run), hooks);
  const double end = wall_seconds();
  const double processor_at_end = process_seconds() - clocks.process_at_begin;
  if (outcome.measured_now != run.matrices || outcome.failed > 0) {
    throw Error(
        ExitCode::kInternal, "E-SIMULATION",
        fmt::format("{} of {} simulated rows were measured, {} failed: {}", outcome.measured_now,
                    run.matrices, outcome.failed, outcome.first_failure_reason));
  }
  SimulatedTimes times;
  times.whole = end - start;
  times.working = clocks.sums.last_solve;
  times.publishing = end - clocks.begun - times.working;
  times.solve = clocks.sums.solve;
  times.oversleep = clocks.sums.oversleep;
  times.wait_unit = clocks.sums.wait_unit;
  times.wait_bytes = clocks.sums.wait_bytes;
  times.wait_hand_over = clocks.sums.wait_hand_over;
  times.writer_waits = clocks.writer_waits;
  times.begin_processor = clocks.beginner.sum();
  times.writer_processor = clocks.writer_processor;
  times.reader_processor = storage.readers.sum();
  times.worker_processor = clocks.workers.sum();
  times.processor = clocks.processor;
  times.publishing_processor = processor_at_end - clocks.processor;
  times.staging_processor = clocks.staging_processor;
  times.staging_bytes = clocks.staging_bytes;
  times.staging_made = clocks.staging_made;
  return times;
}

}  // namespace vindex::throughput
