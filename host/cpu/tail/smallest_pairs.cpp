// Owns the search for the smallest eigenpairs of the band B by a block Krylov space of its inverse,
// with A = (B + s I)^-1 and restarts:
//
//   K = [X, A X, A^2 X],   Z = orth(K),   Z^T B Z = Y diag(t) Y^T,   X <- the first columns of Z Y
//
// until |B x - t x| is small enough for each x that is sought. The Ritz values are of B and not of
// A, because the residual in B is what bounds the error of an eigenvalue.
//
// Why not plain inverse iteration: the best quadratic in A damps all the rest far better than
// A^2 does, for the same two solves. Why not the eigenvectors of the tridiagonal matrix (LAPACK
// stein): their way back leads through the reflectors of the chase, n^2 / 2 of them, which would
// have to be kept by every reduction for the few that need them. Why not LAPACK's or ARPACK's
// Lanczos with one vector: clusters of equal small values need a block, and a block solves by
// products of matrices.
#include "smallest_pairs.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/philox.hpp"
#include "core/process/stop.hpp"
#include "cpu/top/orthonormal.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vindex::cpu {
namespace {

/// Restarts of few columns cost little, and where values lie near to each other (a geometric fall)
/// many are needed: as much work as those of kManyColumns.
constexpr std::int64_t kMaxRestarts = 12;
constexpr std::int64_t kMostRestarts = 48;
constexpr std::int64_t kManyColumns = 64;
/// Blocks of a Krylov space: the block and its images under the inverse.
constexpr std::int64_t kKrylovDepth = 3;
/// Rows that are turned at a time.
constexpr std::int64_t kRows = 256;

std::int64_t space_size(std::int64_t width, std::int64_t order) {
  return std::min(kKrylovDepth * width, order);
}

class Search {
 public:
  Search(BandInverse& inverse, std::int64_t width, Workspace& workspace)
      : inverse_(inverse),
        order_(inverse.order()),
        width_(width),
        size_(space_size(width, order_)),
        workspace_(workspace),
        space_(workspace, order_ * size_, "a Krylov space"),
        image_(workspace, order_ * size_, "a Krylov space"),
        projected_(workspace, size_ * size_, "a projected band"),
        work_(workspace, 36 * size_, "a projected band"),
        rows_(workspace, kRows * width_, "rows of a Krylov space") {
    for (std::int64_t i = 0; i < order_ * width_; ++i) {
      const PhiloxBlock words = philox4x32_10({{static_cast<std::uint32_t>(i), 0, 0, 3}}, 0);
      space_[i] = static_cast<double>(words.word[0]) * 0x1p-31 - 1.0;
    }
    inverse_.solve(space_.data(), width_);
  }

  /// One restart: the space of the present block, its Ritz pairs, the best of them the next block.
  /// The largest residual among the first `count`.
  double improve(std::int64_t count) {
    orthonormalise(space_.data(), order_, width_, workspace_);
    for (std::int64_t filled = width_; filled < size_;) {
      const std::int64_t more = std::min(width_, size_ - filled);
      double* const next = space_.data() + order_ * filled;
      std::copy_n(next - order_ * more, order_ * more, next);
      inverse_.solve(next, more);
      filled += more;
    }
    orthonormalise(space_.data(), order_, size_, workspace_);
    throw_if_stopped(workspace_.stop());
    inverse_.multiply(space_.data(), size_, image_.data());
    blas::blas().cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, as_int(size_), as_int(size_),
                             as_int(order_), 1.0, space_.data(), as_int(order_), image_.data(),
                             as_int(order_), 0.0, projected_.data(), as_int(size_));
    throw_if_stopped(workspace_.stop());
    double* const values = work_.data() + 35 * size_;
    const auto order = static_cast<lapack_int>(size_);
    const auto work_size = static_cast<lapack_int>(35 * size_);
    lapack_int info = 0;
    blas::blas().LAPACK_dsyev("V", "U", &order, projected_.data(), &order, values, work_.data(),
                              &work_size, &info);
    if (info != 0) {
      return std::numeric_limits<double>::infinity();
    }
    rotate(space_.data(), order_, size_, projected_.data(), width_, rows_);
    rotate(image_.data(), order_, size_, projected_.data(), width_, rows_);
    double worst = 0.0;
    for (std::int64_t j = 0; j < count; ++j) {
      double* const residual = image_.data() + j * order_;
      blas::blas().cblas_daxpy(as_int(order_), -values[j], space_.data() + j * order_, 1, residual,
                               1);
      worst = std::max(worst, blas::blas().cblas_dnrm2(as_int(order_), residual, 1));
    }
    return worst;
  }

  const double* block() const { return space_.data(); }

 private:
  BandInverse& inverse_;
  std::int64_t order_;
  std::int64_t width_;
  std::int64_t size_;
  Workspace& workspace_;
  WorkArray<double> space_, image_, projected_, work_, rows_;
};

}  // namespace

std::uint64_t smallest_pairs_bytes(std::int64_t count, std::int64_t order) {
  const std::int64_t width = carried_columns(count, order);
  const std::int64_t size = space_size(width, order);
  return 2 * array_bytes(order * size, sizeof(double)) + array_bytes(size * size, sizeof(double)) +
         array_bytes(36 * size, sizeof(double)) + orthonormal_bytes(size) +
         array_bytes(kRows * width, sizeof(double));
}

bool smallest_pairs(BandInverse& inverse, std::int64_t count, double enough,
                    WorkArray<double>& columns, Workspace& workspace) {
  const std::int64_t width = columns.size() / inverse.order();
  expects(count <= width, "room for the columns that are carried");
  Search search(inverse, width, workspace);
  const std::int64_t restarts =
      std::clamp(kMaxRestarts * kManyColumns / width, kMaxRestarts, kMostRestarts);
  for (std::int64_t restart = 0; restart < restarts; ++restart) {
    const double worst = search.improve(count);
    if (!std::isfinite(worst)) {
      return false;
    }
    if (worst <= enough) {
      std::copy_n(search.block(), columns.size(), columns.data());
      return true;
    }
  }
  return false;
}

}  // namespace vindex::cpu
