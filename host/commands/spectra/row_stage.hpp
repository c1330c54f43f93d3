// Owns the way from raw reports of spectra to finished rows: metrics, nulls and texts are made by
// threads of their own, so that no device waits for them.
#pragma once

#include "commands/spectra/sampled/sampled_input.hpp"
#include "cpu/product/product_nulls.hpp"
#include "engine/run/job.hpp"
#include "engine/units/bounded_queue.hpp"
#include "model/model_index.hpp"
#include "statistics/null/nulls.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace vindex::commands {

/// Thread-safe.
class RowStage {
 public:
  /// `index`, `options` and `rows`, where finished rows go, must outlive it. `queue_bytes` of
  /// reports may wait, or one. A quarter of the cores work.
  RowStage(const model::ModelIndex& index, const MeasureOptions& options, engine::RowSink& rows,
           std::uint64_t queue_bytes);
  ~RowStage();
  RowStage(const RowStage&) = delete;
  RowStage& operator=(const RowStage&) = delete;

  /// `report` of matrix `matrix` of the index, row `row` of the file, and what was taken of its
  /// weights where the run takes samples. Waits where rows are not taken fast enough. What no row
  /// can hold (no memory for one) fails the sink.
  void push(std::int64_t row, std::int64_t matrix, MatrixReport report, TakenSample taken = {});
  /// Nothing more is pushed; returns after the last row.
  void finish();
  /// Time that its threads spent on rows, all of them together.
  double busy_seconds() const { return 1e-9 * static_cast<double>(busy_nanoseconds_.load()); }

 private:
  struct Raw {
    std::int64_t row = 0, matrix = 0;
    MatrixReport report;
    TakenSample taken;
  };
  void work();
  results::ResultRow row_of(Raw& raw);

  const model::ModelIndex& index_;
  const MeasureOptions& options_;
  engine::RowSink& rows_;
  statistics::NullCache nulls_;
  cpu::ProductNullCache product_nulls_;
  engine::BoundedQueue<Raw> raw_;
  std::atomic<std::int64_t> busy_nanoseconds_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace vindex::commands
