// Owns what a job is: rows of a results file, the matrices that each is made of, what that costs,
// and how a unit of them becomes finished rows. A runner (engine/run/job_runner.hpp) does the rest:
// budget, reading, workers, resume, progress and publishing know jobs by nothing else.
#pragma once

#include "backend/backend.hpp"
#include "engine/plan/job_plan.hpp"
#include "engine/plan/work_plan.hpp"
#include "engine/units/bounded_queue.hpp"
#include "results/rows/result_row.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::engine {

class UnitStream;

/// What progress and messages need of a row.
struct RowFacts {
  std::string name;         ///< printable
  std::string unsupported;  ///< why there is nothing to be done for it; empty where there is
  bool is_derived = false;  ///< of another table than the file's first
  std::uint64_t bytes = 0;  ///< encoded, of all its matrices
  double cost = 0.0;        ///< arithmetic; only ratios within a job matter
};

/// Memory that a finished row holds beyond its own size: spectra, vectors, arrays.
std::uint64_t bulk_bytes(const results::ResultRow& row);

/// The row of what could not be done because of `error`; its index is not set. A DeviceError is no
/// trouble of a row and is thrown on: it ends the job.
results::ResultRow failed_row(const std::exception_ptr& error);

/// One more thing that a row has to say of itself.
void add_reason(results::ResultRow& row, const std::string& reason);

/// Where finished rows go, from any thread; one thread takes them out. Thread-safe.
class RowSink {
 public:
  /// Holds rows of `limit_bytes` bulk_bytes() at most, or one.
  explicit RowSink(std::uint64_t limit_bytes) : rows_(kMaxRows, limit_bytes) {}

  /// `row` with its index in the job. Waits where rows are not taken fast enough.
  void push(results::ResultRow row);
  void push_failed(std::int64_t index, const std::exception_ptr& error);
  /// Ends the job with `error` as what no row can hold; the first one counts.
  void fail(std::exception_ptr error);
  /// Nothing more is pushed.
  void close() { rows_.close(); }
  /// Nothing more is taken: rows are dropped, and who makes them is told to end.
  void stop() {
    stop_.request_stop();
    close();
  }
  std::stop_token stop_token() const { return stop_.get_token(); }
  std::exception_ptr failure();
  BoundedQueue<results::ResultRow>& rows() { return rows_; }

 private:
  static constexpr std::size_t kMaxRows = 4096;
  BoundedQueue<results::ResultRow> rows_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::stop_source stop_;
};

/// One job. The constant functions are called from any thread, process() from many at once.
class Job {
 public:
  virtual ~Job() = default;

  /// The models that MatrixRef::model counts; they live as long as the job.
  virtual const ModelViews& models() const = 0;
  /// Rows of the results file, in its order.
  virtual std::int64_t row_count() const = 0;
  virtual RowFacts facts(std::int64_t row) const = 0;
  /// Matrices, cost and memory of `rows`, ascending and none of them unsupported.
  virtual std::vector<RowWork> works(const std::vector<std::int64_t>& rows) const = 0;
  virtual WorkerLayout worker_layout() const = 0;
  /// Memory for the encoded bytes of a unit, ordinary memory where a job asks for none. Errors:
  /// OutOfMemory.
  virtual std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes);

  /// Before the first process(): where rows go, and what may wait on the way there, in bytes.
  virtual void begin(RowSink& /*rows*/, std::uint64_t /*queue_bytes*/) {}
  /// Makes the rows of `unit` on device `device` and pushes them into `rows`. Trouble of single
  /// rows is rows; an exception ends the job, Stopped where the unit's stop_token() asks for it.
  /// What the unit still holds at the return is given back.
  virtual void process(UnitStream& unit, std::size_t device, RowSink& rows) = 0;
  /// After the last process(): returns once every row was pushed.
  virtual void finish() {}
};

}  // namespace vindex::engine
