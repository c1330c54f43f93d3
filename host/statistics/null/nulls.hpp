// Owns the nulls of metrics: means over iid Gaussian noise of a shape, and their cache.
#pragma once

#include "statistics/spectrum/metric_table.hpp"

#include <cstdint>
#include <memory>

namespace vindex::statistics {

/// Means over iid Gaussian noise of that shape (docs/measuring/nulls.md), NaN without a null and
/// for condition_number of a square shape. One row or column: the exact values of any such matrix;
/// a short side below 64: means of draws, the same in every run. Pure; up to 0.1 s for p < 64 (once
/// in a process), 0.2 ms for p = 96, 1.3 ms for 2048, 5 ms for 7168 on one core; cached by
/// NullCache.
MetricValues null_metrics(std::int64_t rows, std::int64_t cols);

/// Standard errors of those nulls of a short side from 2 to 63 that are means of draws, 0 of the
/// exact ones; NaN without a null, of theta where it is tabulated, and for other shapes, whose
/// nulls are computed (within 0.5 %).
MetricValues null_errors(std::int64_t rows, std::int64_t cols);

/// Thread-safe cache of null_metrics by shape (order of the two sides does not matter).
class NullCache {
 public:
  NullCache();
  ~NullCache();
  const MetricValues& of(std::int64_t rows, std::int64_t cols);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vindex::statistics
