// Owns the Rayleigh-Ritz step on W^T W with float64 products: with X orthonormal,
//
//   X^T (W^T W X) = Y diag(t) Y^T,   V = X Y,   R = W^T (W X) Y - V diag(t)
//
// t are the best values that the subspace has: lower bounds of the largest eigenvalues, one by one
// (Cauchy) and in sums (Ky Fan). Source: Golub and Van Loan, Matrix Computations, 8; LAPACK syev.
// For the smallest values squares do not do, and tail/tail_pass.cpp has the way without them.
#include "projection.hpp"

#include "orthonormal.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/integers.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <utility>

namespace vindex::cpu {

// The pass that forms Y = W X and W^T Y together, slab by slab: each slab of W is decoded once
// and multiplied twice, while it is in memory. W^T (W X) costs 4 n p k flop; the float64 Gram that
// would give the same product costs n p^2.

std::uint64_t normal_products_bytes(const SvdPlan& plan, std::int64_t count) {
  return std::max(array_bytes(plan.chunk * plan.short_side, sizeof(double)),
                  orthonormal_bytes(count));
}

void normal_products(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                     std::int64_t count, WorkArray<double>& basis, WorkArray<double>& image,
                     WorkArray<double>& normal, Workspace& workspace, double& seconds,
                     const UseImage& use) {
  const std::int64_t p = plan.short_side;
  {
    const Stopwatch watch(seconds);
    orthonormalise(basis.data(), p, count, workspace);
    std::fill_n(normal.data(), p * count, 0.0);
  }
  WorkArray<double> wide(workspace, plan.chunk * p, "weights as doubles");
  // Row-major is the transpose in the column-major order of the library.
  const auto down = plan.row_slabs ? CblasTrans : CblasNoTrans;
  const auto up = plan.row_slabs ? CblasNoTrans : CblasTrans;
  reader.pass(change, [&](const Tile& tile) {
    const Stopwatch watch(seconds);
    const std::int64_t length = plan.row_slabs ? tile.rows : tile.cols;
    std::copy_n(tile.values, tile.rows * tile.cols, wide.data());
    blas::blas().cblas_dgemm(CblasColMajor, down, CblasNoTrans, as_int(length), as_int(count),
                             as_int(p), 1.0, wide.data(), as_int(tile.cols), basis.data(),
                             as_int(p), 0.0, image.data(), as_int(length));
    blas::blas().cblas_dgemm(CblasColMajor, up, CblasNoTrans, as_int(p), as_int(count),
                             as_int(length), 1.0, wide.data(), as_int(tile.cols), image.data(),
                             as_int(length), 1.0, normal.data(), as_int(p));
    use(image.data(), length, tile.first);
  });
}

WorkArray<double> widened(const float* columns, std::int64_t p, std::int64_t count,
                          Workspace& workspace) {
  WorkArray<double> out(workspace, p * count, "singular vectors");
  std::copy_n(columns, p * count, out.data());
  return out;
}

std::uint64_t projection_bytes(const SvdPlan& plan, std::int64_t count, bool with_image) {
  const std::int64_t p = plan.short_side;
  return 2 * array_bytes(p * count, sizeof(double)) +
         array_bytes(with_image ? plan.long_side * count : 0, sizeof(double)) +
         2 * array_bytes(plan.chunk * count, sizeof(double)) +
         array_bytes(plan.chunk * p, sizeof(double)) +
         2 * array_bytes(count * count, sizeof(double)) +
         2 * array_bytes(count * (kLapackBlock + 3), sizeof(double));
}

Projection project(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                   WorkArray<double> start, std::int64_t count, bool with_image,
                   Workspace& workspace, double& seconds) {
  const std::int64_t p = plan.short_side;
  const std::int64_t n = plan.long_side;
  Projection out;
  out.count = count;
  expects(start.size() == p * count, "project: a start of the stated size");
  out.basis = std::move(start);
  out.residual = WorkArray<double>(workspace, p * count, "residual vectors");
  out.image = WorkArray<double>(workspace, with_image ? n * count : 0, "left singular vectors");
  WorkArray<double> scratch(workspace, plan.chunk * count, "weights times vectors");
  normal_products(reader, plan, change, count, out.basis, scratch, out.residual, workspace, seconds,
                  [&](const double* image, std::int64_t length, std::int64_t first) {
                    if (with_image) {
                      for (std::int64_t j = 0; j < count; ++j) {
                        std::copy_n(image + j * length, length, out.image.data() + j * n + first);
                      }
                    }
                  });

  const Stopwatch watch(seconds);
  WorkArray<double> projected(workspace, count * count, "the projected matrix");
  // Columns are the rows of a row-major matrix.
  blas::steps::gemm(CblasNoTrans, CblasTrans, count, count, p, out.residual.data(),
                    out.basis.data(), projected.data(), workspace.stop());
  out.values.resize(static_cast<std::size_t>(count));
  {
    WorkArray<double> work(workspace, count * (kLapackBlock + 3), "Rayleigh-Ritz");
    const auto order = static_cast<lapack_int>(count);
    const auto work_size = static_cast<lapack_int>(work.size());
    lapack_int info = 0;
    blas::blas().LAPACK_dsyev("V", "U", &order, projected.data(), &order, out.values.data(),
                              work.data(), &work_size, &info);
    expects(info == 0, "dsyev converges on a small projected matrix");
  }
  std::reverse(out.values.begin(), out.values.end());
  for (std::int64_t j = 0; j < count / 2; ++j) {
    double* const left = projected.data() + j * count;
    std::swap_ranges(left, left + count, projected.data() + (count - 1 - j) * count);
  }
  rotate(out.basis.data(), p, count, projected.data(), count, scratch);
  rotate(out.residual.data(), p, count, projected.data(), count, scratch);
  if (with_image) {
    rotate(out.image.data(), n, count, projected.data(), count, scratch);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    blas::blas().cblas_daxpy(as_int(p), -out.values[static_cast<std::size_t>(j)],
                             out.basis.data() + j * p, 1, out.residual.data() + j * p, 1);
  }
  return out;
}

}  // namespace vindex::cpu
