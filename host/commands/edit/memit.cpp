// The normal equations of a MEMIT edit, through Cholesky factors: C = L L^T, M = L^-1 K, then
// K^T C^-1 K = M^T M and C^-1 K = L^-T M. The equations have as many sides as there are keys or, of
// more keys than inputs, inputs.
#include "memit.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/constants.hpp"
#include "cpu/tridiagonal/symmetric_eigenvalues.hpp"
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
bool cholesky(std::vector<double>& matrix, std::int64_t side, const std::stop_token& stop) {
  // Row-major lower is column-major upper.
  return blas::steps::potrf(side, {matrix.data(), side}, stop);
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
                                      double& condition, const std::stop_token& stop) {
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
  if (!cholesky(factor, side, stop)) {
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
double condition_of(std::vector<double> matrix, std::int64_t side, std::optional<double> another,
                    const std::stop_token& stop) {
  if (!all_finite(matrix)) {
    return kInfinity;
  }
  const std::vector<double> values = cpu::symmetric_eigenvalues(matrix, side, stop);
  const double least = std::min(values.front(), another.value_or(values.front()));
  return least > 0.0 ? values.back() / least : kInfinity;
}

/// W' - W through the keys' own equations: n <= in.
LowRankEdit by_keys(std::vector<double> whitened, const Matrix& values, std::int64_t inputs,
                    const std::vector<double>& factor, const std::vector<double>& normal,
                    const std::stop_token& stop) {
  const std::int64_t n = values.cols;
  // C^-1 K, then times the inverse of the normal matrix from the right: (in x n).
  if (!factor.empty()) {
    blas::steps::trsm(CblasLeft, CblasTrans, inputs, n, factor.data(), whitened.data(), stop);
  }
  for (const auto side : {CblasTrans, CblasNoTrans}) {
    blas::steps::trsm(CblasRight, side, inputs, n, normal.data(), whitened.data(), stop);
  }
  LowRankEdit edit;
  edit.rows = values.rows;
  edit.cols = inputs;
  edit.rank = values.cols;
  edit.b.assign(values.values.begin(), values.values.end());
  edit.a = transposed_of<float>(whitened, inputs, values.cols);
  return edit;
}

/// W' - W through equations of the inputs: n > in.
LowRankEdit by_inputs(const std::vector<double>& whitened, const Matrix& values,
                      std::int64_t inputs, const std::vector<double>& factor,
                      const std::vector<double>& normal, const std::stop_token& stop) {
  const std::int64_t out = values.rows;
  std::vector<double> product(as_size(out * inputs));
  blas::steps::gemm(CblasNoTrans, CblasTrans, out, inputs, values.cols, values.values.data(),
                    whitened.data(), product.data(), stop);
  for (const auto side : {CblasTrans, CblasNoTrans}) {
    blas::steps::trsm(CblasRight, side, out, inputs, normal.data(), product.data(), stop);
  }
  if (!factor.empty()) {
    blas::steps::trsm(CblasRight, CblasNoTrans, out, inputs, factor.data(), product.data(), stop);
  }
  return factors_of(product, out, inputs);
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
                  MemitCondition& condition, const std::stop_token& stop) {
  if (!std::isfinite(ridge) || ridge < 0.0) {
    throw UsageError("E-USAGE", "--ridge is a finite number that is not negative");
  }
  require_pairs(keys.cols, values.cols);
  require_finite(keys, "--keys");
  require_finite(values, "--values");
  const std::int64_t in = keys.rows;
  const std::int64_t n = keys.cols;
  std::vector<double> whitened = keys.values;  // M, in x n
  std::vector<double> factor;
  if (covariance != nullptr) {
    factor = covariance_factor(*covariance, in, condition.covariance, stop);
    blas::steps::trsm(CblasLeft, CblasNoTrans, in, n, factor.data(), whitened.data(), stop);
  }
  const bool few = n <= in;
  const std::int64_t side = std::min(in, n);
  const auto count = static_cast<std::size_t>(side);
  std::vector<double> normal(count * count);  // M^T M or M M^T
  blas::steps::gemm(few ? CblasTrans : CblasNoTrans, few ? CblasNoTrans : CblasTrans, side, side,
                    few ? in : n, whitened.data(), whitened.data(), normal.data(), stop);
  for (std::size_t i = 0; i < count; ++i) {
    normal[i * count + i] += ridge;
  }
  condition.keys = condition_of(normal, side, few ? std::optional<double>() : ridge, stop);
  constexpr double kHopeless = 1e15;
  if (!(condition.keys < kHopeless) || !cholesky(normal, side, stop)) {
    throw ConfigurationError(
        "E-EDIT-SINGULAR",
        fmt::format("the {} keys of {} components are so nearly dependent that K^T C^-1 K + ridge "
                    "I is singular in float64 (condition {:.1e}): raise --ridge, or leave a key "
                    "out",
                    n, in, condition.keys));
  }
  return few ? by_keys(std::move(whitened), values, in, factor, normal, stop)
             : by_inputs(whitened, values, in, factor, normal, stop);
}

}  // namespace vindex::edit
