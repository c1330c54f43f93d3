// Owns LAPACK's blocked drivers, written as their own loops over blocks that look for a stop. A
// call of the library takes up to a minute at 7168 x 7168 and cannot be ended; between two looks
// here lies less than a second on one core.
//
// The loops are those of the reference (LAPACK 3.11), with its block sizes and crossovers
// (ILAENV), and what they call is the library's: so they give its bits, whatever kernels it has.
// Where a driver takes something whole below its crossover, the driver itself is called for it.
//
// Matrices are column-major unless said otherwise, sides at most 2^31 - 1. Once `stop` is asked for
// all of them throw Stopped; the arrays then hold rubbish. Other errors are stated.
#pragma once

#include <cblas.h>

#include <cstdint>
#include <stop_token>

namespace vindex::blas::steps {

/// Columns per block in all of these, ILAENV's for each of them.
inline constexpr std::int64_t kBlock = 32;

/// Element (i, j) is values[i + j * stride].
template <typename Real>
struct Columns {
  Real* values = nullptr;
  std::int64_t stride = 0;
  Real* at(std::int64_t i, std::int64_t j) const { return values + i + j * stride; }
  Columns from(std::int64_t i, std::int64_t j) const { return {at(i, j), stride}; }
};

/// xGEBRD of n x n: d[n], e[n - 1] upper bidiagonal, factors of the reflectors in tau_left[n] and
/// tau_right[n]. `work`: 2 n kBlock.
void gebrd(std::int64_t n, Columns<double> a, double* d, double* e, double* tau_left,
           double* tau_right, double* work, const std::stop_token& stop);

/// xSYTRD of the upper triangle: d[n], e[n - 1], tau[n - 1]. `work`: n kBlock.
void sytrd(std::int64_t n, Columns<double> a, double* d, double* e, double* tau, double* work,
           const std::stop_token& stop);
void sytrd(std::int64_t n, Columns<float> a, float* d, float* e, float* tau, float* work,
           const std::stop_token& stop);

/// xGEQRF of m x n: tau[min(m, n)]. `work`: n kBlock.
void geqrf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work,
           const std::stop_token& stop);

/// xGELQF of m x n: tau[min(m, n)]. `work`: m kBlock.
void gelqf(std::int64_t m, std::int64_t n, Columns<double> a, double* tau, double* work,
           const std::stop_token& stop);

/// xORGQR: the first n columns of Q of geqrf(m, n), n <= m. `work`: n kBlock.
void orgqr(std::int64_t m, std::int64_t n, Columns<double> a, const double* tau, double* work,
           const std::stop_token& stop);

/// xTPQRT with blocks of kBlock columns: the n x n triangle r on top of the m x n rectangle b.
/// `reflectors` and `work`: min(n, kBlock) n each.
void tpqrt(std::int64_t m, std::int64_t n, Columns<double> r, Columns<double> b, double* reflectors,
           double* work, const std::stop_token& stop);

/// A Cholesky factor of up to this order is one call, of a tenth of a second.
inline constexpr std::int64_t kWholeCholesky = 2048;

/// xPOTRF of the upper triangle: A = U^T U; false where A is not positive definite. Of an order
/// above `whole` the last bits are not the library's, whose blocks are its kernels' own; the error
/// bound is the same (Higham 2002, theorem 10.3, for sums in any order).
bool potrf(std::int64_t n, Columns<double> a, const std::stop_token& stop,
           std::int64_t whole = kWholeCholesky);
bool potrf(std::int64_t n, Columns<float> a, const std::stop_token& stop,
           std::int64_t whole = kWholeCholesky);

/// Numbers of `work` in syevr() for each of n, and kSyevrMore in all.
inline constexpr std::int64_t kSyevrWork = 35;
inline constexpr std::int64_t kSyevrMore = kBlock * kBlock;
/// Eigenvectors of a matrix of up to this order are one call, of a second or two.
inline constexpr std::int64_t kWholeEigenvectors = 1024;

/// xSYEVR of the upper triangle, destroyed: the `count` largest eigenvalues, ascending, in
/// values[n], and their vectors, n x count without gaps. `integers`: 12 n. Of an order above
/// `whole` the last bits are not the library's (eigenvectors.cpp), and the tridiagonal form's
/// vectors are one call, of 4 s at 7168 for a quarter of them and 12 s for all. Errors: expects()
/// where LAPACK finds none.
void syevr(std::int64_t n, Columns<double> a, std::int64_t count, double* values, double* vectors,
           double* work, int* integers, const std::stop_token& stop,
           std::int64_t whole = kWholeEigenvectors);

/// A product of matrices of up to this many flop is one call, and so is a triangular solve: about
/// half a second.
inline constexpr std::int64_t kWholeProduct = 20'000'000'000;

/// How many of `count` rows or columns, of `flop_each`, one product takes: all of them up to
/// `whole` flop, else as many as fit, a multiple of 64 and at least as many.
std::int64_t piece_of(std::int64_t count, double flop_each, std::int64_t whole = kWholeProduct);

/// C = op(A) op(B), all row-major and without gaps: C is rows x cols, op(A) rows x depth. Beyond
/// `whole` flop by blocks of rows, whose last bits may differ from those of one call.
void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::int64_t rows, std::int64_t cols,
          std::int64_t depth, const double* a, const double* b, double* c,
          const std::stop_token& stop, std::int64_t whole = kWholeProduct);

/// B = op(L)^-1 B (left) or B op(L)^-1 (right), row-major: B is rows x cols without gaps, L lower
/// triangular without gaps. Beyond `whole` flop by blocks of columns (left) or rows (right) of B,
/// as gemm().
void trsm(CBLAS_SIDE side, CBLAS_TRANSPOSE turn, std::int64_t rows, std::int64_t cols,
          const double* triangle, double* b, const std::stop_token& stop,
          std::int64_t whole = kWholeProduct);

}  // namespace vindex::blas::steps
