// Owns reports of spectra that are given, for tests of what follows from them.
#pragma once
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vindex::statistics {

inline MatrixReport report_of(std::vector<double> sigma) {
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  for (const double value : sigma) {
    report.moments.sum_squares += value * value;
  }
  report.sigma = std::move(sigma);
  return report;
}

inline MetricValues derive(std::int64_t rows, std::int64_t cols, const MatrixReport& report) {
  std::string reason;
  return derive_metrics(rows, cols, report, SpectrumMode::kDefault, reason);
}

}  // namespace vindex::statistics
