// Owns the bidiagonal form. Its panels are LAPACK's xLABRD, column by column: one reads the rest of
// the matrix twice for each of its columns, bound by memory, and takes two seconds at 7168.
#include "steps.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::blas::steps {
namespace {

constexpr std::int64_t kBidiagonalCrossover = 128;  ///< up to this order without blocks

/// y = factor op(A) x + keep y; A is m x n.
void multiply(CBLAS_TRANSPOSE turn, std::int64_t m, std::int64_t n, double factor,
              Columns<double> a, const double* x, std::int64_t step_x, double keep, double* y,
              std::int64_t step_y) {
  blas().cblas_dgemv(CblasColMajor, turn, as_int(m), as_int(n), factor, a.values, as_int(a.stride),
                     x, as_int(step_x), keep, y, as_int(step_y));
}

/// The reflector that clears x[n - 1] below `alpha`. Source: LAPACK dlarfg.
void reflect(std::int64_t n, double* alpha, double* x, std::int64_t step, double* tau) {
  const int order = as_int(n);
  const int stride = as_int(step);
  blas().LAPACK_dlarfg(&order, alpha, x, &stride, tau);
}

/// The first kBlock columns and rows of the n x n matrix `a`, with X and Y (n x kBlock) such that
/// what is left becomes A - V Y^T - X U^T. Source: LAPACK dlabrd, its branch m >= n.
void panel(std::int64_t n, Columns<double> a, double* d, double* e, double* tau_left,
           double* tau_right, Columns<double> x, Columns<double> y, const std::stop_token& stop) {
  const std::int64_t row = a.stride;  // step along a row
  for (std::int64_t i = 0; i < kBlock; ++i) {
    throw_if_stopped(stop);
    const std::int64_t rest = n - i - 1;
    double* const pivot = a.at(i, i);
    multiply(CblasNoTrans, n - i, i, -1.0, a.from(i, 0), y.at(i, 0), y.stride, 1.0, pivot, 1);
    multiply(CblasNoTrans, n - i, i, -1.0, x.from(i, 0), a.at(0, i), 1, 1.0, pivot, 1);
    reflect(n - i, pivot, pivot + 1, 1, tau_left + i);
    d[i] = *pivot;
    *pivot = 1.0;
    multiply(CblasTrans, n - i, rest, 1.0, a.from(i, i + 1), pivot, 1, 0.0, y.at(i + 1, i), 1);
    multiply(CblasTrans, n - i, i, 1.0, a.from(i, 0), pivot, 1, 0.0, y.at(0, i), 1);
    multiply(CblasNoTrans, rest, i, -1.0, y.from(i + 1, 0), y.at(0, i), 1, 1.0, y.at(i + 1, i), 1);
    multiply(CblasTrans, n - i, i, 1.0, x.from(i, 0), pivot, 1, 0.0, y.at(0, i), 1);
    multiply(CblasTrans, i, rest, -1.0, a.from(0, i + 1), y.at(0, i), 1, 1.0, y.at(i + 1, i), 1);
    blas().cblas_dscal(as_int(rest), tau_left[i], y.at(i + 1, i), 1);

    double* const next = a.at(i, i + 1);
    multiply(CblasNoTrans, rest, i + 1, -1.0, y.from(i + 1, 0), a.at(i, 0), row, 1.0, next, row);
    multiply(CblasTrans, i, rest, -1.0, a.from(0, i + 1), x.at(i, 0), x.stride, 1.0, next, row);
    reflect(rest, next, a.at(i, i + 2), row, tau_right + i);
    e[i] = *next;
    *next = 1.0;
    multiply(CblasNoTrans, rest, rest, 1.0, a.from(i + 1, i + 1), next, row, 0.0, x.at(i + 1, i),
             1);
    multiply(CblasTrans, rest, i + 1, 1.0, y.from(i + 1, 0), next, row, 0.0, x.at(0, i), 1);
    multiply(CblasNoTrans, rest, i + 1, -1.0, a.from(i + 1, 0), x.at(0, i), 1, 1.0, x.at(i + 1, i),
             1);
    multiply(CblasNoTrans, i, rest, 1.0, a.from(0, i + 1), next, row, 0.0, x.at(0, i), 1);
    multiply(CblasNoTrans, rest, i, -1.0, x.from(i + 1, 0), x.at(0, i), 1, 1.0, x.at(i + 1, i), 1);
    blas().cblas_dscal(as_int(rest), tau_right[i], x.at(i + 1, i), 1);
  }
}

}  // namespace

void gebrd(std::int64_t n, Columns<double> a, double* d, double* e, double* tau_left,
           double* tau_right, double* work, const std::stop_token& stop) {
  const Columns<double> x{work, n};
  const Columns<double> y{work + n * kBlock, n};
  const auto lda = as_int(a.stride);
  std::int64_t done = 0;
  for (; done < n - kBidiagonalCrossover; done += kBlock) {
    const Columns<double> left = a.from(done, done);
    panel(n - done, left, d + done, e + done, tau_left + done, tau_right + done, x, y, stop);
    const auto rest = as_int(n - done - kBlock);
    const auto update = [&](CBLAS_TRANSPOSE turn, const double* columns, int stride_columns,
                            const double* rows, int stride_rows) {
      throw_if_stopped(stop);
      blas().cblas_dgemm(CblasColMajor, CblasNoTrans, turn, rest, rest, as_int(kBlock), -1.0,
                         columns, stride_columns, rows, stride_rows, 1.0, left.at(kBlock, kBlock),
                         lda);
    };
    update(CblasTrans, left.at(kBlock, 0), lda, y.at(kBlock, 0), as_int(n));
    update(CblasNoTrans, x.at(kBlock, 0), as_int(n), left.at(0, kBlock), lda);
    for (std::int64_t j = 0; j < kBlock; ++j) {
      *left.at(j, j) = d[done + j];
      *left.at(j, j + 1) = e[done + j];
    }
  }
  throw_if_stopped(stop);
  const auto rest = as_int(n - done);
  const auto work_size = as_int(2 * n * kBlock);
  int info = 0;
  blas().LAPACK_dgebrd(&rest, &rest, a.at(done, done), &lda, d + done, e + done, tau_left + done,
                       tau_right + done, work, &work_size, &info);
  expects(info == 0, "dgebrd accepts its arguments");
}

}  // namespace vindex::blas::steps
