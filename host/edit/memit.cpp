// The normal equations of a MEMIT edit, through Cholesky factors: C = L L^T, M = L^-1 K, then
// K^T C^-1 K = M^T M and C^-1 K = L^-T M.
#include <vindex/blas/blas.hpp>
#include <vindex/core/error.hpp>
#include <vindex/edit/low_rank_edit.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::edit {
namespace {

constexpr double kSymmetric = 1e-4;  ///< float32 sums over tokens agree better than this

void require_finite(const Matrix& matrix, const char* what) {
  if (!std::all_of(matrix.values.begin(), matrix.values.end(),
                   [](double value) { return std::isfinite(value); })) {
    throw FormatError("E-EDIT-VALUES", what, "holds numbers that are not finite");
  }
}

/// `matrix`, symmetric, becomes its lower Cholesky factor (row-major; the upper triangle is left).
/// False where it is not positive definite.
bool cholesky(std::vector<double>& matrix, std::int64_t side) {
  const int n = static_cast<int>(side);
  int info = 0;
  // Row-major lower is column-major upper.
  blas::blas().LAPACK_dpotrf("U", &n, matrix.data(), &n, &info);
  return info == 0;
}

/// The covariance's factor. `condition`: a lower bound.
std::vector<double> covariance_factor(const Matrix& covariance, std::int64_t side,
                                      double& condition) {
  if (covariance.rows != side || covariance.cols != side) {
    throw FormatError("E-EDIT-SHAPE", "--covariance",
                      fmt::format("is {} x {}, but the keys have {} components", covariance.rows,
                                  covariance.cols, side));
  }
  require_finite(covariance, "--covariance");
  const auto n = static_cast<std::size_t>(side);
  std::vector<double> factor = covariance.values;
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double below = covariance.values[i * n + j];
      const double above = covariance.values[j * n + i];
      largest = std::max({largest, std::fabs(below), std::fabs(above)});
      difference = std::max(difference, std::fabs(below - above));
      factor[i * n + j] = 0.5 * (below + above);
    }
  }
  if (difference > kSymmetric * largest) {
    throw FormatError("E-EDIT-VALUES", "--covariance", "is not symmetric");
  }
  if (!cholesky(factor, side)) {
    throw ConfigurationError("E-EDIT-SINGULAR",
                             "--covariance is not positive definite in float64: take it over more "
                             "tokens than it has sides, or add to its diagonal");
  }
  double least = factor[0];
  double most = factor[0];
  for (std::size_t i = 0; i < n; ++i) {
    least = std::min(least, factor[i * n + i]);
    most = std::max(most, factor[i * n + i]);
  }
  condition = (most / least) * (most / least);
  return factor;
}

double condition_of(std::vector<double> matrix, std::int64_t side) {
  std::vector<double> values(static_cast<std::size_t>(side));
  const int n = static_cast<int>(side);
  int info = 0;
  int wanted = -1;
  double size = 0.0;
  blas::blas().LAPACK_dsyev("N", "U", &n, matrix.data(), &n, values.data(), &size, &wanted, &info);
  wanted = static_cast<int>(size);
  std::vector<double> work(static_cast<std::size_t>(wanted));
  blas::blas().LAPACK_dsyev("N", "U", &n, matrix.data(), &n, values.data(), work.data(), &wanted,
                            &info);
  return info == 0 && values.front() > 0.0 ? values.back() / values.front()
                                           : std::numeric_limits<double>::infinity();
}

}  // namespace

LowRankEdit memit(const Matrix& keys, const Matrix& values, const Matrix* covariance, double ridge,
                  MemitCondition& condition) {
  if (keys.cols != values.cols || keys.cols == 0) {
    throw FormatError(
        "E-EDIT-SHAPE", "--keys and --values",
        fmt::format("keys are columns: {} keys and {} values", keys.cols, values.cols));
  }
  require_finite(keys, "--keys");
  require_finite(values, "--values");
  const auto in = static_cast<int>(keys.rows);
  const auto n = static_cast<int>(keys.cols);
  const auto count = static_cast<std::size_t>(keys.cols);
  std::vector<double> whitened = keys.values;  // M, in x n
  std::vector<double> factor;
  if (covariance != nullptr) {
    factor = covariance_factor(*covariance, keys.rows, condition.covariance);
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, in,
                             n, 1.0, factor.data(), in, whitened.data(), n);
  }
  std::vector<double> normal(count * count);
  blas::blas().cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, n, in, 1.0, whitened.data(),
                           n, whitened.data(), n, 0.0, normal.data(), n);
  for (std::size_t i = 0; i < count; ++i) {
    normal[i * count + i] += ridge;
  }
  condition.keys = condition_of(normal, keys.cols);
  constexpr double kHopeless = 1e15;
  if (!(condition.keys < kHopeless) || !cholesky(normal, keys.cols)) {
    throw ConfigurationError(
        "E-EDIT-SINGULAR",
        fmt::format("the {} keys are so nearly dependent that K^T C^-1 K + ridge I is singular in "
                    "float64 (condition {:.1e}): raise --ridge, or leave a key out",
                    n, condition.keys));
  }
  // C^-1 K, then times the inverse of the normal matrix from the right: (in x n).
  if (covariance != nullptr) {
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, in, n,
                             1.0, factor.data(), in, whitened.data(), n);
  }
  blas::blas().cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, in, n,
                           1.0, normal.data(), n, whitened.data(), n);
  blas::blas().cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, in, n,
                           1.0, normal.data(), n, whitened.data(), n);
  LowRankEdit edit;
  edit.rows = values.rows;
  edit.cols = keys.rows;
  edit.rank = keys.cols;
  edit.b.assign(values.values.begin(), values.values.end());
  edit.a.resize(whitened.size());
  const auto inputs = static_cast<std::size_t>(keys.rows);
  for (std::size_t i = 0; i < inputs; ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      edit.a[k * inputs + i] = static_cast<float>(whitened[i * count + k]);
    }
  }
  return edit;
}

}  // namespace vindex::edit
