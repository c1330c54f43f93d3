// Owns the way from raw reports to finished rows: metrics, nulls and texts are made by threads of
// their own, so that no device waits for them.
#pragma once

#include <vindex/cpu/product_spectrum.hpp>
#include <vindex/measure/metrics.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/results/result_row.hpp>
#include <vindex/run/bounded_queue.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::run {

/// A finished row with what progress needs of its matrix.
struct Delivery {
  results::ResultRow row;
  std::uint64_t bytes = 0;
  double cost = 0.0;
};

/// The row of a matrix that could not be measured because of `error`; its index is not set.
results::ResultRow failed_row(const std::exception_ptr& error);

/// Thread-safe. Ends in the order: close(), its threads run dry, the deliveries are closed.
class RowStage {
 public:
  /// `index`, `options` and `row_of_matrix` (matrix of the index -> row of the file) must outlive
  /// it. 0 threads: a quarter of the cores.
  RowStage(const model::ModelIndex& index, const measure::MeasureOptions& options,
           const std::vector<std::int64_t>& row_of_matrix, std::int32_t threads);
  ~RowStage();
  RowStage(const RowStage&) = delete;
  RowStage& operator=(const RowStage&) = delete;

  /// `report` of matrix `matrix` of the index. Waits where rows are not taken fast enough.
  void push(std::int64_t matrix, measure::MatrixReport report);
  void push_failed(std::int64_t matrix, std::exception_ptr error);
  /// Nothing more is pushed; deliveries() ends after the last row.
  void close();
  BoundedQueue<Delivery>& deliveries() { return deliveries_; }
  /// What no row can tell (no memory for one) and has ended the stage, or null.
  std::exception_ptr failure();
  /// Time that its threads spent on rows, all of them together.
  double busy_seconds() const { return 1e-9 * static_cast<double>(busy_nanoseconds_.load()); }

 private:
  struct Raw {
    std::int64_t matrix = 0;
    measure::MatrixReport report;
    std::exception_ptr error;
  };
  void work();
  results::ResultRow row_of(Raw& raw);
  void deliver(std::int64_t matrix, results::ResultRow row);

  const model::ModelIndex& index_;
  const measure::MeasureOptions& options_;
  const std::vector<std::int64_t>& row_of_matrix_;
  measure::NullCache nulls_;
  cpu::ProductNullCache product_nulls_;
  BoundedQueue<Raw> raw_;
  BoundedQueue<Delivery> deliveries_;
  std::atomic<std::int32_t> left_{0};
  std::atomic<std::int64_t> busy_nanoseconds_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace vindex::run
