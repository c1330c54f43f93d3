// Owns the route without squares: R of W = Q R, block of rows by block of rows, its bidiagonal form
// and that form's singular values:
//
//   [R; next rows of W] = Q' R'      (tpqrt, a triangle on top of a rectangle)
//   R = U B V^T                      (gebrd)
//   s = singular values of B         (bdsqr, without vectors the dqds iteration of lasq1)
//
// Sources: Demmel, Grigori, Hoemmen, Langou 2012 (QR by blocks); Fernando and Parlett 1994 (dqds).
// Error p eps64 s_1, since every step is orthogonal or dqds; the square roots of a Gram's
// eigenvalues err by eps64 s_1^2 / s.
//
// Why not LAPACK's gesvd or gesdd on W: W would have to lie in memory in float64 as a whole, and
// without the QR first the bidiagonal form costs 4 n p^2 where tpqrt and gebrd take 2 n p^2 + 2
// p^3.
#include "strict_qr.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/process/stop.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::cpu {
namespace {

/// Copies a tile, turned to the tall orientation, to rows first.. of a column-major matrix with
/// leading dimension `stride`.
void copy_tall(const Tile& tile, bool row_slabs, double* to, std::int64_t stride) {
  if (!row_slabs) {  // stored p x c row-major is c x p column-major
    for (std::int64_t j = 0; j < tile.rows; ++j) {
      const float* const from = tile.values + j * tile.cols;
      std::copy_n(from, tile.cols, to + j * stride);
    }
    return;
  }
  constexpr std::int64_t kBlock = 16;
  for (std::int64_t first = 0; first < tile.cols; first += kBlock) {
    const std::int64_t end = std::min(first + kBlock, tile.cols);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      for (std::int64_t j = first; j < end; ++j) {
        to[j * stride + i] = static_cast<double>(tile.values[i * tile.cols + j]);
      }
    }
  }
}

}  // namespace

void triangular_factor(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       Workspace& workspace, double* r, double& seconds) {
  const std::int64_t p = plan.short_side;
  const std::int64_t panel = std::min(blas::steps::kBlock, p);
  WorkArray<double> block(workspace, plan.chunk * p, "a block of rows");
  WorkArray<double> reflectors(workspace, panel * p, "block reflectors");
  WorkArray<double> work(workspace, panel * p, "QR decomposition");
  std::fill_n(r, p * p, 0.0);
  reader.pass(change, [&](const Tile& tile) {
    const Stopwatch watch(seconds);
    const std::int64_t length = plan.row_slabs ? tile.rows : tile.cols;
    copy_tall(tile, plan.row_slabs, block.data(), length);
    blas::steps::tpqrt(length, p, {r, p}, {block.data(), length}, reflectors.data(), work.data(),
                       workspace.stop());
  });
}

std::vector<double> singular_values_by_bidiagonal(double* a, std::int64_t p, Workspace& workspace) {
  const auto n = static_cast<lapack_int>(p);
  std::vector<double> d(static_cast<std::size_t>(p));
  WorkArray<double> e(workspace, p, "bidiagonal form");
  WorkArray<double> tau_left(workspace, p, "Householder factors");
  WorkArray<double> tau_right(workspace, p, "Householder factors");
  WorkArray<double> work(workspace, 2 * p * blas::steps::kBlock, "bidiagonal reduction");
  blas::steps::gebrd(p, {a, p}, d.data(), e.data(), tau_left.data(), tau_right.data(), work.data(),
                     workspace.stop());
  throw_if_stopped(workspace.stop());
  const lapack_int none = 0;
  const lapack_int one = 1;
  double unused = 0.0;
  lapack_int info = 0;
  blas::blas().LAPACK_dbdsqr("U", &n, &none, &none, &none, d.data(), e.data(), &unused, &one,
                             &unused, &one, &unused, &one, work.data(), &info);
  expects(info >= 0, "dbdsqr accepts its arguments");
  if (info != 0) {
    d.clear();
  }
  return d;
}

std::uint64_t qr_bytes(const SvdPlan& plan) {
  const std::int64_t p = plan.short_side;
  const std::uint64_t factor =
      array_bytes(plan.chunk * p, sizeof(double)) +
      2 * array_bytes(std::min(blas::steps::kBlock, p) * p, sizeof(double));
  const std::uint64_t values =
      3 * array_bytes(p, sizeof(double)) + array_bytes(2 * p * blas::steps::kBlock, sizeof(double));
  return std::max(factor, values);
}

}  // namespace vindex::cpu
