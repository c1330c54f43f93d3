#include "certificate.hpp"

#include "lapack.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/metrics.hpp>

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::measure {
namespace {

constexpr double kEps32 = 0x1p-24;
constexpr double kEps64 = 0x1p-53;
constexpr std::int32_t kLargestK = 64;
constexpr double kTolerance = 1e-5;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

int as_int(std::int64_t value) { return static_cast<int>(value); }

SpectrumBounds no_bounds() {
  SpectrumBounds bounds;
  bounds.var_at_k_lower.assign(kVarAtK.size(), kNaN);
  bounds.var_at_k_upper.assign(kVarAtK.size(), kNaN);
  return bounds;
}

/// True where tau I - G + V T V^T is positive definite, tau less the rounding of this very test.
bool is_complement_below(const float* gram, const Projection& projection, double tau,
                         Workspace& workspace) {
  const std::int64_t p = projection.basis.size() / projection.count;
  const std::int64_t m = projection.count;
  WorkArray<double> matrix(workspace, p * p, "the matrix of the certificate");
  double shift = static_cast<double>(p) * tau;
  {
    WorkArray<double> scaled(workspace, p * m, "scaled vectors");
    for (std::int64_t j = 0; j < m; ++j) {
      const double value = std::max(projection.values[static_cast<std::size_t>(j)], 0.0);
      const double root = std::sqrt(value);
      shift += value;
      for (std::int64_t i = 0; i < p; ++i) {
        scaled[j * p + i] = root * projection.basis[j * p + i];
      }
    }
    cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, as_int(p), as_int(m), 1.0, scaled.data(),
                as_int(p), 0.0, matrix.data(), as_int(p));
  }
  // Rounding of the entries and of the factorisation: at most 2 (p + m + 4) eps64 trace.
  shift *= 2.0 * static_cast<double>(p + m + 4) * kEps64;
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      matrix[j * p + i] -= static_cast<double>(gram[j * p + i]);
    }
    matrix[j * p + j] += tau - shift;
  }
  const auto order = static_cast<lapack_int>(p);
  lapack_int info = 0;
  LAPACK_dpotrf("U", &order, matrix.data(), &order, &info);
  expects(info >= 0, "dpotrf accepts its arguments");
  return info == 0;
}

/// sum of the k largest eigenvalues of T + R^T R / gap, and the largest alone.
struct UpperSums {
  double top = 0.0;
  double sum = 0.0;
};
UpperSums upper_sums(const Projection& projection, const WorkArray<double>& residual_gram,
                     double gap, std::int32_t k, Workspace& workspace) {
  const std::int64_t m = projection.count;
  WorkArray<double> matrix(workspace, m * m, "the matrix of the bounds");
  WorkArray<double> work(workspace, 36 * m, "eigenvalues of the bounds");
  for (std::int64_t i = 0; i < m * m; ++i) {
    matrix[i] = residual_gram[i] / gap;
  }
  for (std::int64_t j = 0; j < m; ++j) {
    matrix[j * m + j] += projection.values[static_cast<std::size_t>(j)];
  }
  const auto order = static_cast<lapack_int>(m);
  const auto work_size = static_cast<lapack_int>(35 * m);
  double* const ascending = work.data() + 35 * m;
  lapack_int info = 0;
  LAPACK_dsyev("N", "U", &order, matrix.data(), &order, ascending, work.data(), &work_size, &info);
  expects(info == 0, "dsyev converges on a small projected matrix");
  UpperSums sums;
  sums.top = ascending[m - 1];
  for (std::int64_t i = 0; i < k; ++i) {
    sums.sum += ascending[m - 1 - i];
  }
  return sums;
}

}  // namespace

double gram32_error_bound(std::int64_t long_side, std::int64_t length, double sum_squares) {
  const std::int64_t chunks = (long_side + length - 1) / length;
  const auto terms = static_cast<double>(length + chunks + 4);
  return terms * kEps32 * sum_squares;
}

std::uint64_t certificate_bytes(std::int64_t p, std::int64_t count) {
  return array_bytes(p * p, sizeof(double)) + array_bytes(p * count, sizeof(double)) +
         2 * array_bytes(count * count, sizeof(double)) + array_bytes(36 * count, sizeof(double));
}

SpectrumBounds certified_bounds(const float* gram, const Projection& projection, double next_value,
                                double gram_error, double sum_squares, std::int64_t long_side,
                                Workspace& workspace) {
  SpectrumBounds bounds = no_bounds();
  const std::int64_t m = projection.count;
  const std::int64_t p = projection.basis.size() / m;
  expects(m > kLargestK, "certified_bounds: more vectors than values");
  // Products in float64 move a Ritz value by at most this; |W|_F^2 bounds the 2-norm of |W|^T |W|.
  const double rounding = 4.0 * static_cast<double>(long_side + 2 * p) * kEps64 * sum_squares;
  const double lowest = projection.values[kLargestK - 1] - rounding;
  double tau = kNaN;
  for (const double place : {0.15, 0.5}) {
    const double candidate = next_value + place * (lowest - gram_error - next_value);
    if (candidate + gram_error < lowest && candidate > 0.0 &&
        is_complement_below(gram, projection, candidate, workspace)) {
      tau = candidate + gram_error;
      break;
    }
  }
  if (std::isnan(tau)) {
    return bounds;
  }
  WorkArray<double> residual_gram(workspace, m * m, "the Gram matrix of the residuals");
  cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(m), as_int(m), as_int(p), 1.0,
              projection.residual.data(), as_int(p), projection.residual.data(), as_int(p), 0.0,
              residual_gram.data(), as_int(m));
  double lower = 0.0;
  std::int32_t summed = 0;
  for (std::size_t index = 0; index < kVarAtK.size() && kVarAtK[index] <= kLargestK; ++index) {
    const std::int32_t k = kVarAtK[index];
    for (; summed < k; ++summed) {
      lower += projection.values[static_cast<std::size_t>(summed)] - rounding;
    }
    const double gap = projection.values[static_cast<std::size_t>(k) - 1] - rounding - tau;
    const UpperSums upper = upper_sums(projection, residual_gram, gap, k, workspace);
    bounds.var_at_k_lower[index] = lower / sum_squares;
    bounds.var_at_k_upper[index] = std::min(1.0, (upper.sum + k * rounding) / sum_squares);
    if (k == 1) {
      bounds.stable_rank_lower = sum_squares / (upper.top + rounding);
      bounds.stable_rank_upper = sum_squares / lower;
    }
  }
  return bounds;
}

SpectrumBounds bounds_of_spectrum(std::span<const double> sigma, double error, double sum_squares) {
  SpectrumBounds bounds = no_bounds();
  double sum = 0.0;
  std::size_t summed = 0;
  for (std::size_t index = 0; index < kVarAtK.size() && kVarAtK[index] <= kLargestK; ++index) {
    const auto k = static_cast<std::size_t>(kVarAtK[index]);
    for (; summed < std::min(k, sigma.size()); ++summed) {
      sum += sigma[summed] * sigma[summed];
    }
    const double slack = static_cast<double>(summed) * error;
    bounds.var_at_k_lower[index] = std::max(0.0, (sum - slack) / sum_squares);
    bounds.var_at_k_upper[index] = std::min(1.0, (sum + slack) / sum_squares);
  }
  const double first = sigma[0] * sigma[0];
  bounds.stable_rank_lower = sum_squares / (first + error);
  bounds.stable_rank_upper = sum_squares / (first - error);
  return bounds;
}

bool is_tight(const SpectrumBounds& bounds) {
  for (std::size_t index = 0; index < kVarAtK.size() && kVarAtK[index] <= kLargestK; ++index) {
    if (!(bounds.var_at_k_upper[index] - bounds.var_at_k_lower[index] <= kTolerance)) {
      return false;
    }
  }
  return bounds.stable_rank_upper - bounds.stable_rank_lower <=
         kTolerance * bounds.stable_rank_lower;
}

}  // namespace vindex::measure
