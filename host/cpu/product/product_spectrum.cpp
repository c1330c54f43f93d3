// Owns the spectrum of a chain of factors A_1 A_2 ... A_m that is never formed. The chain is cut at
// its least side r and reduced from both ends towards the cut:
//
//   A_1 = Q R,   R A_2 = Q' R',  ...     s(A_1 A_2 ... A_m) = s(R_left L_right),   r x r
//
// since orthogonal factors at the ends change no singular value. Source: LAPACK gelqf, geqrf, then
// gebrd and bdsqr (strict/strict_qr.hpp).
//
// Why not form the product: an attention head's Q^T K is d x d of rank r = 128, and forming it
// costs d^2 r where this costs d r^2; and the d - r values that are zero would come out as
// rounding.
#include "product_spectrum.hpp"

#include "backend/backend.hpp"
#include "blas/steps/steps.hpp"
#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "cpu/strict/strict_qr.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace vindex::cpu {
namespace {

void expect_sides(const Factor& factor) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  expects(factor.rows > 0 && factor.cols > 0 && factor.rows <= kMax && factor.cols <= kMax &&
              factor.values.size() == as_size(factor.rows * factor.cols),
          "a factor with rows, columns and all its values");
}

Factor multiply_factors(const Factor& a, const Factor& b, const std::stop_token& stop) {
  expects(a.cols == b.rows, "factors whose sides fit");
  Factor out{a.rows, b.cols, std::vector<double>(as_size(a.rows * b.cols))};
  blas::steps::gemm(CblasNoTrans, CblasNoTrans, a.rows, b.cols, a.cols, a.values.data(),
                    b.values.data(), out.values.data(), stop);
  return out;
}

/// An upper bound of the spectral norm: the root of the largest row sum times the largest column
/// sum of magnitudes.
double norm_bound(const Factor& factor) {
  std::vector<double> columns(as_size(factor.cols), 0.0);
  double row_sum = 0.0;
  for (std::int64_t i = 0; i < factor.rows; ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < factor.cols; ++j) {
      const double magnitude = std::abs(factor.values[as_size(i * factor.cols + j)]);
      sum += magnitude;
      columns[as_size(j)] += magnitude;
    }
    row_sum = std::max(row_sum, sum);
  }
  return std::sqrt(row_sum * *std::max_element(columns.begin(), columns.end()));
}

bool is_finite(const Factor& factor) {
  return std::all_of(factor.values.begin(), factor.values.end(),
                     [](double value) { return std::isfinite(value); });
}

std::vector<std::int64_t> sides_of(std::span<const Factor* const> chain) {
  std::vector<std::int64_t> sides = {chain.front()->rows};
  for (const Factor* factor : chain) {
    sides.push_back(factor->cols);
  }
  return sides;
}

/// The square core of the chain, cut at its least side.
Factor core_of(std::span<const Factor* const> chain, const std::stop_token& stop) {
  const std::vector<std::int64_t> sides = sides_of(chain);
  const auto cut =
      static_cast<std::size_t>(std::min_element(sides.begin(), sides.end()) - sides.begin());
  Factor left;
  for (std::size_t i = 0; i < cut; ++i) {
    left = reduced_left(i == 0 ? *chain[0] : multiply_factors(left, *chain[i], stop), stop);
  }
  Factor right;
  for (std::size_t i = chain.size(); i > cut; --i) {
    right = reduced_right(
        i == chain.size() ? *chain[i - 1] : multiply_factors(*chain[i - 1], right, stop), stop);
  }
  if (cut == 0) {
    return right;
  }
  return cut == chain.size() ? left : multiply_factors(left, right, stop);
}

}  // namespace

Factor reduced_left(Factor factor, const std::stop_token& stop) {
  expect_sides(factor);
  if (factor.rows <= factor.cols || !is_finite(factor)) {
    return factor;
  }
  // Row-major rows x cols is column-major cols x rows, whose L is R row-major.
  std::vector<double> tau(as_size(factor.cols));
  std::vector<double> work(as_size(factor.cols * blas::steps::kBlock));
  blas::steps::gelqf(factor.cols, factor.rows, {factor.values.data(), factor.cols}, tau.data(),
                     work.data(), stop);
  factor.rows = factor.cols;
  factor.values.resize(as_size(factor.cols * factor.cols));
  factor.values.shrink_to_fit();
  for (std::int64_t i = 1; i < factor.cols; ++i) {
    std::fill_n(factor.values.begin() + i * factor.cols, i, 0.0);
  }
  return factor;
}

Factor reduced_right(Factor factor, const std::stop_token& stop) {
  expect_sides(factor);
  if (factor.cols <= factor.rows || !is_finite(factor)) {
    return factor;
  }
  std::vector<double> tau(as_size(factor.rows));
  std::vector<double> work(as_size(factor.rows * blas::steps::kBlock));
  blas::steps::geqrf(factor.cols, factor.rows, {factor.values.data(), factor.cols}, tau.data(),
                     work.data(), stop);
  Factor out{factor.rows, factor.rows, std::vector<double>(as_size(factor.rows * factor.rows))};
  for (std::int64_t i = 0; i < out.rows; ++i) {
    std::copy_n(factor.values.begin() + i * factor.cols, i + 1, out.values.begin() + i * out.cols);
  }
  return out;
}

std::int64_t product_rank(std::span<const std::int64_t> sides) {
  expects(sides.size() >= 2, "a chain of at least one factor");
  return *std::min_element(sides.begin(), sides.end());
}

double product_error(std::span<const Factor* const> chain, double scale) {
  double bound = std::abs(scale);
  for (const Factor* factor : chain) {
    bound *= norm_bound(*factor);
  }
  const std::vector<std::int64_t> sides = sides_of(chain);
  return 50.0 * static_cast<double>(product_rank(sides)) * kEps64 * bound;
}

MatrixReport product_spectrum(std::span<const Factor* const> chain, double scale,
                              const std::stop_token& stop) {
  expects(!chain.empty() && std::isfinite(scale), "a chain of factors and a finite scale");
  MatrixReport report;
  report.method = "product64+cpu";
  if (!std::all_of(chain.begin(), chain.end(), [](const Factor* f) { return is_finite(*f); })) {
    report.status = MatrixStatus::kNotFinite;
    report.reason = "a factor holds weights that are not finite";
    return report;
  }
  Factor core = core_of(chain, stop);
  throw_if_stopped(stop);
  double sum_squares = 0.0;
  for (std::int64_t i = 0; i < core.rows; ++i) {
    double of_row = 0.0;
    for (double& value :
         std::span(core.values).subspan(as_size(i * core.cols), as_size(core.cols))) {
      value *= scale;
      of_row += value * value;
    }
    sum_squares += of_row;
  }
  if (!std::isfinite(sum_squares)) {
    report.status = MatrixStatus::kNotFinite;
    report.reason = "the product overflows";
    return report;
  }
  expects(core.rows == core.cols, "a core cut at the least side");
  report.moments.sum_squares = sum_squares;
  if (sum_squares == 0.0) {
    report.status = MatrixStatus::kMeasured;
    report.sigma.assign(as_size(core.rows), 0.0);
    report.sigma_error = 0.0;
    return report;
  }
  Workspace workspace(0, stop);
  report.sigma = singular_values_by_bidiagonal(core.values.data(), core.rows, workspace);
  if (report.sigma.empty()) {
    report.status = MatrixStatus::kNotConverged;
    report.reason = "the iteration for the singular values of the core did not converge";
    return report;
  }
  report.sigma_error = product_error(chain, scale);
  report.status = MatrixStatus::kMeasured;
  const std::vector<double> errors(report.sigma.size(), report.sigma_error);
  const statistics::SpectrumChecks checks = statistics::check_spectrum(
      report.sigma, errors, {.sum_squares = sum_squares, .p = core.rows, .n = core.rows});
  report.check_trace = checks.trace;
  if (checks.refute()) {
    statistics::take_refuted(checks, report);
  }
  return report;
}

statistics::MetricValues derive_product_metrics(std::int64_t rows, std::int64_t cols,
                                                std::int64_t rank, const MatrixReport& report,
                                                std::string& reason) {
  expects(rank > 0 && rank <= std::min(rows, cols), "a rank that fits the product");
  statistics::MetricValues values =
      statistics::derive_metrics(rank, std::max(rows, cols), report, SpectrumMode::kStrict, reason);
  if (report.status != MatrixStatus::kMeasured) {
    return values;
  }
  for (const statistics::Metric metric :
       {statistics::Metric::kMpScale, statistics::Metric::kMpOutliers,
        statistics::Metric::kMpLowerOutliers, statistics::Metric::kMpKs, statistics::Metric::kTheta,
        statistics::Metric::kSignal, statistics::Metric::kRankEdge, statistics::Metric::kRankGd}) {
    values[metric] = std::numeric_limits<double>::quiet_NaN();
  }
  if (!reason.empty()) {
    reason += "; ";
  }
  reason += "no Marchenko-Pastur bulk in a product";
  return values;
}

}  // namespace vindex::cpu
