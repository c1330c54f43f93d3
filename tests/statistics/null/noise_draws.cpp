// Owns drawing the bidiagonal model and the averages over its draws.
#include "noise_draws.hpp"

#include "backend/backend.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

// LAPACK: singular values of a bidiagonal matrix to high relative accuracy.
extern "C" void dlasq1_(const int* size, double* diagonal, double* off_diagonal, double* work,
                        int* info);

namespace vindex::test {
namespace {

using statistics::Metric;
using statistics::MetricValues;

double chi(std::int64_t freedom, std::mt19937_64& engine) {
  std::gamma_distribution<double> gamma(0.5 * static_cast<double>(freedom), 2.0);
  return std::sqrt(gamma(engine));
}

/// Names in the order of a results file.
std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const std::int32_t k : kVarAtK) {
    out.push_back("var_at_" + std::to_string(k));
  }
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    if (row.has_null || row.metric == Metric::kMpOutliers ||
        row.metric == Metric::kMpLowerOutliers) {
      out.emplace_back(row.name);
    }
  }
  return out;
}

}  // namespace

std::vector<double> noise_singular_values(std::int64_t p, std::int64_t n, std::mt19937_64& engine) {
  std::vector<double> diagonal(static_cast<std::size_t>(p));
  std::vector<double> off(static_cast<std::size_t>(p));
  for (std::int64_t i = 0; i < p; ++i) {
    diagonal[static_cast<std::size_t>(i)] = chi(n - i, engine);
    off[static_cast<std::size_t>(i)] = i + 1 < p ? chi(p - 1 - i, engine) : 0.0;
  }
  std::vector<double> work(static_cast<std::size_t>(4 * p));
  const int size = static_cast<int>(p);
  int info = 0;
  dlasq1_(&size, diagonal.data(), off.data(), work.data(), &info);
  if (info != 0) {
    throw std::runtime_error("dlasq1 did not converge");
  }
  return diagonal;  // descending
}

double value_of(const MetricValues& values, const std::string& metric) {
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    if (metric == "var_at_" + std::to_string(kVarAtK[i])) {
      return values.var_at_k[i];
    }
  }
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    if (metric == row.name) {
      return values[row.metric];
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<DrawnMean> drawn_means(std::int64_t rows, std::int64_t cols, std::int64_t draws,
                                   std::uint64_t seed) {
  std::vector<DrawnMean> out;
  for (const std::string& name : names()) {
    out.push_back({name, 0.0, 0.0});
  }
  const std::int64_t p = std::min(rows, cols);
  const std::int64_t n = std::max(rows, cols);
  std::mt19937_64 engine(seed);
  std::vector<double> squares(out.size());
  for (std::int64_t draw = 1; draw <= draws; ++draw) {
    MatrixReport report;
    report.status = MatrixStatus::kMeasured;
    report.sigma = noise_singular_values(p, n, engine);
    for (const double sigma : report.sigma) {
      report.moments.sum_squares += sigma * sigma;
    }
    std::string reason;
    const MetricValues values =
        statistics::derive_metrics(rows, cols, report, SpectrumMode::kDefault, reason);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double step = value_of(values, out[i].metric) - out[i].mean;
      out[i].mean += step / static_cast<double>(draw);
      squares[i] += step * (value_of(values, out[i].metric) - out[i].mean);
    }
  }
  const auto count = static_cast<double>(draws);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].error = std::sqrt(squares[i] / (count * (count - 1.0)));
  }
  std::erase_if(out, [](const DrawnMean& mean) { return std::isnan(mean.mean); });
  return out;
}

}  // namespace vindex::test
