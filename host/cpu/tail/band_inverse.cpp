// Owns the block Cholesky factor of a shifted band and what is solved with it. With A_k the
// diagonal blocks of B + s I and B_k those below them, kBand on a side,
//
//   L_k L_k^T = A_k - E_(k-1) E_(k-1)^T,    E_k = B_k L_k^-T,
//
// and a solve runs down the blocks with L_k^-1 and up again with L_k^-T. Source: Golub and Van
// Loan, Matrix Computations, 4.5 (block tridiagonal systems); LAPACK potrf, BLAS trsm.
//
// Why not LAPACK's pbtrf and pbtrs: pbtrs solves for one right-hand side after the other (tbsv),
// and the search solves for dozens at once, which by blocks are products of matrices. Why Cholesky
// and not LU or LDL^T: a factor that exists proves that the shift was large enough, and it needs no
// pivots.
#include "band_inverse.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::cpu {
namespace {

constexpr std::int64_t kSquare = kBand * kBand;

// to = alpha block * from + to, or with the block's transpose.
void add_product(CBLAS_TRANSPOSE side, double alpha, const double* block, const double* from,
                 std::int64_t count, std::int64_t stride, double* to) {
  blas::blas().cblas_dgemm(CblasColMajor, side, CblasNoTrans, as_int(kBand), as_int(count),
                           as_int(kBand), alpha, block, as_int(kBand), from, as_int(stride), 1.0,
                           to, as_int(stride));
}

void solve_triangle(CBLAS_TRANSPOSE side, const double* block, std::int64_t count,
                    std::int64_t stride, double* columns) {
  blas::blas().cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, side, CblasNonUnit, as_int(kBand),
                           as_int(count), 1.0, block, as_int(kBand), columns, as_int(stride));
}

}  // namespace

BandInverse::BandInverse(std::span<const double> band, std::int64_t n, Workspace& workspace)
    : order_(band_order(n)),
      matrix_(workspace, 2 * order_ * kBand, "the band by blocks"),
      factor_(workspace, 2 * order_ * kBand, "the factor of the band") {
  // Blocks are column-major; element (i, j), i >= j, of the band is at j * kBandStride + i.
  for (std::int64_t start = 0; start < order_; start += kBand) {
    double* const own = matrix_.data() + 2 * start * kBand;
    double* const next = own + kSquare;
    for (std::int64_t j = 0; j < kBand; ++j) {
      const double* const column = band.data() + (start + j) * kBandStride + start;
      for (std::int64_t i = j; i < kBand; ++i) {
        own[j * kBand + i] = own[i * kBand + j] = column[i];
      }
      for (std::int64_t i = 0; i < kBand; ++i) {
        next[j * kBand + i] = i <= j && start + kBand < order_ ? column[kBand + i] : 0.0;
      }
      if (start + j >= n) {  // beyond every eigenvalue of entries of at most 1
        own[j * kBand + j] = 2.0 * static_cast<double>(order_);
      }
    }
  }
}

std::uint64_t BandInverse::bytes(std::int64_t n) {
  return 2 * array_bytes(2 * band_order(n) * kBand, sizeof(double));
}

bool BandInverse::factor(double shift) {
  std::copy_n(matrix_.data(), matrix_.size(), factor_.data());
  const auto order = static_cast<lapack_int>(kBand);
  for (std::int64_t block = 0; block < order_ / kBand; ++block) {
    double* const own = diagonal(block);
    for (std::int64_t j = 0; j < kBand; ++j) {
      own[j * kBand + j] += shift;
    }
    if (block > 0) {
      const double* const before = below(block - 1);
      blas::blas().cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, as_int(kBand),
                               as_int(kBand), as_int(kBand), -1.0, before, as_int(kBand), before,
                               as_int(kBand), 1.0, own, as_int(kBand));
    }
    lapack_int info = 0;
    blas::blas().LAPACK_dpotrf("L", &order, own, &order, &info);
    if (info != 0 || !std::isfinite(own[kSquare - 1])) {
      return false;
    }
    // below = E L^-T
    blas::blas().cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit,
                             as_int(kBand), as_int(kBand), 1.0, own, as_int(kBand), below(block),
                             as_int(kBand));
  }
  return true;
}

void BandInverse::solve(double* columns, std::int64_t count) {
  const std::int64_t blocks = order_ / kBand;
  for (std::int64_t block = 0; block < blocks; ++block) {
    double* const rows = columns + block * kBand;
    if (block > 0) {
      add_product(CblasNoTrans, -1.0, below(block - 1), rows - kBand, count, order_, rows);
    }
    solve_triangle(CblasNoTrans, diagonal(block), count, order_, rows);
  }
  for (std::int64_t block = blocks - 1; block >= 0; --block) {
    double* const rows = columns + block * kBand;
    if (block + 1 < blocks) {
      add_product(CblasTrans, -1.0, below(block), rows + kBand, count, order_, rows);
    }
    solve_triangle(CblasTrans, diagonal(block), count, order_, rows);
  }
}

void BandInverse::multiply(const double* columns, std::int64_t count, double* out) const {
  std::fill_n(out, order_ * count, 0.0);
  const std::int64_t blocks = order_ / kBand;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const double* const own = matrix_.data() + 2 * block * kSquare;
    const double* const rows = columns + block * kBand;
    double* const to = out + block * kBand;
    add_product(CblasNoTrans, 1.0, own, rows, count, order_, to);
    if (block + 1 < blocks) {
      add_product(CblasNoTrans, 1.0, own + kSquare, rows, count, order_, to + kBand);
      add_product(CblasTrans, 1.0, own + kSquare, rows + kBand, count, order_, to);
    }
  }
}

}  // namespace vindex::cpu
