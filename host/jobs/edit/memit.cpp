// The normal equations of a MEMIT edit, through Cholesky factors: C = L L^T, M = L^-1 K, then
// K^T C^-1 K = M^T M and C^-1 K = L^-T M. The equations have as many sides as there are keys or, of
// more keys than inputs, inputs.
#include "matrix_edit.hpp"

#include "blas/blas.hpp"
#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace vindex::edit {
namespace {

constexpr double kSymmetric = 1e-4;  ///< float32 sums over tokens agree better than this

void require_finite(const Matrix& matrix, const std::string& what) {
  if (!all_finite(matrix.values)) {
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

[[noreturn]] void refuse_singular(double condition) {
  throw ConfigurationError(
      "E-EDIT-SINGULAR",
      fmt::format("--covariance is not positive definite in float64 (condition {:.1e}): take it "
                  "over more tokens than it has sides, or add to its diagonal",
                  condition));
}

/// The covariance's factor, and its condition in the 1-norm.
std::vector<double> covariance_factor(const Matrix& covariance, std::int64_t side,
                                      double& condition) {
  require_covariance(covariance, side, "--covariance");
  const auto n = static_cast<std::size_t>(side);
  std::vector<double> factor = covariance.values;
  double norm = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
      const double value = 0.5 * (covariance.values[i * n + j] + covariance.values[j * n + i]);
      factor[i * n + j] = value;
      sum += std::fabs(value);
    }
    norm = std::max(norm, sum);
  }
  condition = kInfinity;
  if (!cholesky(factor, side)) {
    refuse_singular(condition);
  }
  std::vector<double> work(3 * n);
  std::vector<int> signs(n);
  const int order = static_cast<int>(side);
  double reciprocal = 0.0;
  int info = 0;
  blas::blas().LAPACK_dpocon("U", &order, factor.data(), &order, &norm, &reciprocal, work.data(),
                             signs.data(), &info);
  if (info == 0 && reciprocal > 0.0) {
    condition = 1.0 / reciprocal;
  }
  // LAPACK's own bound (dposvx): beyond it no digit of a solution is right.
  if (!(reciprocal > 0.5 * std::numeric_limits<double>::epsilon())) {
    refuse_singular(condition);
  }
  return factor;
}

/// Largest over smallest eigenvalue; `another`: one more that the equations have.
double condition_of(std::vector<double> matrix, std::int64_t side, std::optional<double> another) {
  const auto values = symmetric_eigenvalues(matrix, side, false);
  const double least = values ? std::min(values->front(), another.value_or(values->front())) : 0.0;
  return least > 0.0 ? values->back() / least : kInfinity;
}

/// W' - W through the keys' own equations: n <= in.
LowRankEdit by_keys(std::vector<double> whitened, const Matrix& values, std::int64_t inputs,
                    const std::vector<double>& factor, std::vector<double> normal) {
  const auto in = static_cast<int>(inputs);
  const auto n = static_cast<int>(values.cols);
  // C^-1 K, then times the inverse of the normal matrix from the right: (in x n).
  if (!factor.empty()) {
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasTrans, CblasNonUnit, in, n,
                             1.0, factor.data(), in, whitened.data(), n);
  }
  for (const auto side : {CblasTrans, CblasNoTrans}) {
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, side, CblasNonUnit, in, n, 1.0,
                             normal.data(), n, whitened.data(), n);
  }
  LowRankEdit edit;
  edit.rows = values.rows;
  edit.cols = inputs;
  edit.rank = values.cols;
  edit.b.assign(values.values.begin(), values.values.end());
  edit.a = turned<float>(whitened, inputs, values.cols);
  return edit;
}

/// W' - W through equations of the inputs: n > in.
LowRankEdit by_inputs(const std::vector<double>& whitened, const Matrix& values,
                      std::int64_t inputs, const std::vector<double>& factor,
                      const std::vector<double>& normal) {
  const auto in = static_cast<int>(inputs);
  const auto n = static_cast<int>(values.cols);
  const auto out = static_cast<int>(values.rows);
  std::vector<double> product(static_cast<std::size_t>(values.rows * inputs));
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, out, in, n, 1.0,
                           values.values.data(), n, whitened.data(), n, 0.0, product.data(), in);
  for (const auto side : {CblasTrans, CblasNoTrans}) {
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, side, CblasNonUnit, out, in,
                             1.0, normal.data(), in, product.data(), in);
  }
  if (!factor.empty()) {
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, out,
                             in, 1.0, factor.data(), in, product.data(), in);
  }
  return factors_of(product, values.rows, inputs);
}

}  // namespace

void require_covariance_sides(std::int64_t rows, std::int64_t cols, std::int64_t side,
                              const std::string& where) {
  if (rows != side || cols != side) {
    throw FormatError("E-EDIT-SHAPE", where,
                      fmt::format("is {} x {}, but inputs have {} components", rows, cols, side));
  }
}

void require_pairs(std::int64_t keys, std::int64_t values) {
  if (keys != values || keys == 0) {
    throw FormatError("E-EDIT-SHAPE", "--keys and --values",
                      fmt::format("keys are columns: {} keys and {} values", keys, values));
  }
}

void require_covariance(const Matrix& covariance, std::int64_t side, const std::string& where) {
  require_covariance_sides(covariance.rows, covariance.cols, side, where);
  require_finite(covariance, where);
  const auto n = static_cast<std::size_t>(side);
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double below = covariance.values[i * n + j];
      const double above = covariance.values[j * n + i];
      largest = std::max({largest, std::fabs(below), std::fabs(above)});
      difference = std::max(difference, std::fabs(below - above));
    }
  }
  if (difference > kSymmetric * largest) {
    throw FormatError("E-EDIT-VALUES", where, "is not symmetric");
  }
}

LowRankEdit memit(const Matrix& keys, const Matrix& values, const Matrix* covariance, double ridge,
                  MemitCondition& condition) {
  if (!std::isfinite(ridge) || ridge < 0.0) {
    throw UsageError("E-USAGE", "--ridge is a finite number that is not negative");
  }
  require_pairs(keys.cols, values.cols);
  require_finite(keys, "--keys");
  require_finite(values, "--values");
  const auto in = static_cast<int>(keys.rows);
  const auto n = static_cast<int>(keys.cols);
  std::vector<double> whitened = keys.values;  // M, in x n
  std::vector<double> factor;
  if (covariance != nullptr) {
    factor = covariance_factor(*covariance, keys.rows, condition.covariance);
    blas::blas().cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, in,
                             n, 1.0, factor.data(), in, whitened.data(), n);
  }
  const bool few = n <= in;
  const std::int64_t side = std::min(keys.rows, keys.cols);
  const auto count = static_cast<std::size_t>(side);
  std::vector<double> normal(count * count);  // M^T M or M M^T
  blas::blas().cblas_dgemm(CblasRowMajor, few ? CblasTrans : CblasNoTrans,
                           few ? CblasNoTrans : CblasTrans, static_cast<int>(side),
                           static_cast<int>(side), few ? in : n, 1.0, whitened.data(), n,
                           whitened.data(), n, 0.0, normal.data(), static_cast<int>(side));
  for (std::size_t i = 0; i < count; ++i) {
    normal[i * count + i] += ridge;
  }
  condition.keys = condition_of(normal, side, few ? std::optional<double>() : ridge);
  constexpr double kHopeless = 1e15;
  if (!(condition.keys < kHopeless) || !cholesky(normal, side)) {
    throw ConfigurationError(
        "E-EDIT-SINGULAR",
        fmt::format("the {} keys of {} components are so nearly dependent that K^T C^-1 K + ridge "
                    "I is singular in float64 (condition {:.1e}): raise --ridge, or leave a key "
                    "out",
                    n, in, condition.keys));
  }
  return few ? by_keys(std::move(whitened), values, keys.rows, factor, std::move(normal))
             : by_inputs(whitened, values, keys.rows, factor, normal);
}

}  // namespace vindex::edit
