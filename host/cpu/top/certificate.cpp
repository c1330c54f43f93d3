// Owns the computed half of the proof in statistics/judgement/spectrum_bounds.hpp. With V the Ritz
// vectors, T their values, R their residuals, G the Gram matrix in memory:
//
//   tau I - G + V T V^T is positive definite, by a Cholesky factorisation that succeeds (potrf)
//   upper sums: eigenvalues of T + R^T R / (t_k - tau)                                   (syev)
//   |G - W^T W|_2 <= (length + chunks + 4) eps32 |W|_F^2
//
// The last is the usual bound of a sum of so many roundings, eps32 terms times |W|^T |W|, whose
// norm is at most |W|_F^2 (Higham 2002, section 3.5).
//
// Why Cholesky and not the inertia of an LDL^T factorisation (LAPACK sytrf), which would count the
// eigenvalues above tau outright: a Cholesky factorisation that runs to its end has an error bound
// that is known before it begins (Rump 2006), so that success is a proof; the signs of computed
// pivots are none.
#include "certificate.hpp"

#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/constants.hpp"
#include "core/integers.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::cpu {
namespace {

/// True where tau I - G + V T V^T is positive definite, tau less the rounding of this very test.
bool is_complement_below(const float* gram, const Projection& projection, double tau,
                         Workspace& workspace) {
  const std::int64_t p = projection.basis.size() / projection.count;
  const std::int64_t m = projection.count;
  WorkArray<double> matrix(workspace, p * p, "the matrix of the certificate");
  const double shift = statistics::definiteness_shift(p, projection.values, tau);
  {
    WorkArray<double> scaled(workspace, p * m, "scaled vectors");
    for (std::int64_t j = 0; j < m; ++j) {
      // A negative Ritz value of W^T W is rounding, which the shift allows for.
      const double value = std::max(projection.values[static_cast<std::size_t>(j)], 0.0);
      const double root = std::sqrt(value);
      for (std::int64_t i = 0; i < p; ++i) {
        scaled[j * p + i] = root * projection.basis[j * p + i];
      }
    }
    blas::blas().cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, as_int(p), as_int(m), 1.0,
                             scaled.data(), as_int(p), 0.0, matrix.data(), as_int(p));
  }
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      matrix[j * p + i] -= static_cast<double>(gram[j * p + i]);
    }
    matrix[j * p + j] += tau - shift;
  }
  return blas::steps::potrf(p, {matrix.data(), p}, workspace.stop());
}

/// sum of the k largest eigenvalues of T + R^T R / gap, and the largest alone.
statistics::UpperSums upper_sums(const Projection& projection,
                                 const WorkArray<double>& residual_gram, double gap, std::int64_t k,
                                 Workspace& workspace) {
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
  blas::blas().LAPACK_dsyev("N", "U", &order, matrix.data(), &order, ascending, work.data(),
                            &work_size, &info);
  expects(info == 0, "dsyev converges on a small projected matrix");
  statistics::UpperSums sums;
  sums.top = ascending[m - 1];
  for (std::int64_t i = 0; i < k; ++i) {
    sums.sum += ascending[m - 1 - i];
  }
  return sums;
}

}  // namespace

double gram32_error_bound(std::int64_t long_side, std::int64_t length, double sum_squares) {
  const std::int64_t chunks = ceil_divide(long_side, length);
  const auto terms = static_cast<double>(length + chunks + 4);
  return terms * kEps32 * sum_squares;
}

std::uint64_t certificate_bytes(std::int64_t p, std::int64_t count) {
  return array_bytes(p * p, sizeof(double)) + array_bytes(p * count, sizeof(double)) +
         2 * array_bytes(count * count, sizeof(double)) + array_bytes(36 * count, sizeof(double));
}

SpectrumBounds prove_bounds(const float* gram, const Projection& projection, double next_value,
                            double gram_error, double sum_squares, std::int64_t long_side,
                            Workspace& workspace) {
  const std::int64_t m = projection.count;
  const std::int64_t p = projection.basis.size() / m;
  const statistics::CertificateInput input = {.values = projection.values,
                                              .next_value = next_value,
                                              .gram_error = gram_error,
                                              .sum_squares = sum_squares,
                                              .short_side = p,
                                              .long_side = long_side};
  const std::vector<double> candidates = statistics::complement_candidates(input);
  const auto proved = std::find_if(candidates.begin(), candidates.end(), [&](double candidate) {
    return is_complement_below(gram, projection, candidate, workspace);
  });
  if (proved == candidates.end()) {
    return statistics::unproved_bounds();
  }
  WorkArray<double> residual_gram(workspace, m * m, "the Gram matrix of the residuals");
  blas::blas().cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(m), as_int(m), as_int(p),
                           1.0, projection.residual.data(), as_int(p), projection.residual.data(),
                           as_int(p), 0.0, residual_gram.data(), as_int(m));
  std::vector<statistics::UpperSums> upper;
  for (std::size_t index = 0; index < statistics::bounded_count(); ++index) {
    upper.push_back(upper_sums(projection, residual_gram,
                               statistics::certificate_gap(input, *proved, index),
                               statistics::bounded_k(index), workspace));
  }
  return statistics::certified_bounds(input, upper);
}

}  // namespace vindex::cpu
