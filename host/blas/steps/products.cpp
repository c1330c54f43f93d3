// Owns what is one product of matrices or made of such: the Cholesky factor, triangular solves and
// the product itself, cut where one call would take longer than a stop may wait.
#include "steps.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::blas::steps {
namespace {

constexpr std::int64_t kCholeskyBlock = 512;  ///< 13 Gflop at once at 7168
constexpr std::int64_t kLeastPiece = 64;      ///< what kernels take at once, or a few of it

bool whole_potrf(std::int64_t n, Columns<double> a) {
  const auto order = as_int(n);
  const auto lda = as_int(a.stride);
  int info = 0;
  blas().LAPACK_dpotrf("U", &order, a.values, &lda, &info);
  expects(info >= 0, "dpotrf accepts its arguments");
  return info == 0;
}

bool whole_potrf(std::int64_t n, Columns<float> a) {
  const auto order = as_int(n);
  const auto lda = as_int(a.stride);
  int info = 0;
  blas().LAPACK_spotrf("U", &order, a.values, &lda, &info);
  expects(info >= 0, "spotrf accepts its arguments");
  return info == 0;
}

/// C -= A^T A, the upper triangle of a block of `count`; A has `depth` rows.
void subtract_square(std::int64_t count, std::int64_t depth, Columns<double> a, Columns<double> c) {
  blas().cblas_dsyrk(CblasColMajor, CblasUpper, CblasTrans, as_int(count), as_int(depth), -1.0,
                     a.values, as_int(a.stride), 1.0, c.values, as_int(c.stride));
}
void subtract_square(std::int64_t count, std::int64_t depth, Columns<float> a, Columns<float> c) {
  blas().cblas_ssyrk(CblasColMajor, CblasUpper, CblasTrans, as_int(count), as_int(depth), -1.0F,
                     a.values, as_int(a.stride), 1.0F, c.values, as_int(c.stride));
}

/// C -= A^T B, rows x cols.
void subtract_product(std::int64_t rows, std::int64_t cols, std::int64_t depth, Columns<double> a,
                      Columns<double> b, Columns<double> c) {
  blas().cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(rows), as_int(cols),
                     as_int(depth), -1.0, a.values, as_int(a.stride), b.values, as_int(b.stride),
                     1.0, c.values, as_int(c.stride));
}
void subtract_product(std::int64_t rows, std::int64_t cols, std::int64_t depth, Columns<float> a,
                      Columns<float> b, Columns<float> c) {
  blas().cblas_sgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(rows), as_int(cols),
                     as_int(depth), -1.0F, a.values, as_int(a.stride), b.values, as_int(b.stride),
                     1.0F, c.values, as_int(c.stride));
}

/// B = U^-T B.
void divide_by(std::int64_t rows, std::int64_t cols, Columns<double> upper, Columns<double> b) {
  blas().cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, as_int(rows),
                     as_int(cols), 1.0, upper.values, as_int(upper.stride), b.values,
                     as_int(b.stride));
}
void divide_by(std::int64_t rows, std::int64_t cols, Columns<float> upper, Columns<float> b) {
  blas().cblas_strsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, as_int(rows),
                     as_int(cols), 1.0F, upper.values, as_int(upper.stride), b.values,
                     as_int(b.stride));
}

template <typename Real>
bool blocked_potrf(std::int64_t n, Columns<Real> a, const std::stop_token& stop,
                   std::int64_t whole) {
  throw_if_stopped(stop);
  if (n <= whole) {
    return whole_potrf(n, a);
  }
  // Rows of U, block by block: A is read where it is needed, so that the largest product of a step
  // is a block of rows.
  for (std::int64_t done = 0; done < n; done += kCholeskyBlock) {
    const std::int64_t block = std::min(kCholeskyBlock, n - done);
    const std::int64_t next = done + block;
    subtract_square(block, done, a.from(0, done), a.from(done, done));
    if (!whole_potrf(block, a.from(done, done))) {
      return false;
    }
    throw_if_stopped(stop);
    if (next < n) {
      subtract_product(block, n - next, done, a.from(0, done), a.from(0, next), a.from(done, next));
      throw_if_stopped(stop);
      divide_by(block, n - next, a.from(done, done), a.from(done, next));
      throw_if_stopped(stop);
    }
  }
  return true;
}

/// Calls piece(first, count) for all of `count`.
template <typename Piece>
void in_pieces(std::int64_t count, double flop_each, std::int64_t whole,
               const std::stop_token& stop, const Piece& piece) {
  const std::int64_t most = piece_of(count, flop_each, whole);
  for (std::int64_t first = 0; first < count; first += most) {
    throw_if_stopped(stop);
    piece(first, std::min(most, count - first));
  }
}

}  // namespace

std::int64_t piece_of(std::int64_t count, double flop_each, std::int64_t whole) {
  const double fitting = static_cast<double>(whole) / std::max(flop_each, 1.0);
  return fitting >= static_cast<double>(count)
             ? count
             : kLeastPiece *
                   std::max(static_cast<std::int64_t>(fitting) / kLeastPiece, std::int64_t{1});
}

bool potrf(std::int64_t n, Columns<double> a, const std::stop_token& stop, std::int64_t whole) {
  return blocked_potrf(n, a, stop, whole);
}
bool potrf(std::int64_t n, Columns<float> a, const std::stop_token& stop, std::int64_t whole) {
  return blocked_potrf(n, a, stop, whole);
}

void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::int64_t rows, std::int64_t cols,
          std::int64_t depth, const double* a, const double* b, double* c,
          const std::stop_token& stop, std::int64_t whole) {
  const bool transposed = turn_a == CblasTrans;
  const double flop_of_row = 2.0 * static_cast<double>(cols) * static_cast<double>(depth);
  in_pieces(rows, flop_of_row, whole, stop, [&](std::int64_t first, std::int64_t count) {
    blas().cblas_dgemm(CblasRowMajor, turn_a, turn_b, as_int(count), as_int(cols), as_int(depth),
                       1.0, a + first * (transposed ? 1 : depth), as_int(transposed ? rows : depth),
                       b, as_int(turn_b == CblasTrans ? depth : cols), 0.0, c + first * cols,
                       as_int(cols));
  });
}

void trsm(CBLAS_SIDE side, CBLAS_TRANSPOSE turn, std::int64_t rows, std::int64_t cols,
          const double* triangle, double* b, const std::stop_token& stop, std::int64_t whole) {
  const bool left = side == CblasLeft;
  const std::int64_t order = left ? rows : cols;
  const double flop_each = static_cast<double>(order) * static_cast<double>(order);
  const std::int64_t vectors = left ? cols : rows;
  in_pieces(vectors, flop_each, whole, stop, [&](std::int64_t first, std::int64_t count) {
    blas().cblas_dtrsm(CblasRowMajor, side, CblasLower, turn, CblasNonUnit,
                       as_int(left ? rows : count), as_int(left ? count : cols), 1.0, triangle,
                       as_int(order), b + first * (left ? 1 : cols), as_int(cols));
  });
}

}  // namespace vindex::blas::steps
