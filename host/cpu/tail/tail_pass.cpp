// Owns singular values of W on a subspace, from one pass over W in float64. With an orthonormal
// basis X (p x k) and the rows of W X passing by in blocks:
//
//   W X = U R (R by QR of [R; next block of rows]),   R = P diag(s) Y^T,   X <- X Y
//   residual = W^T (W X) Y - X diag(s^2)
//
// so that s are the singular values of W X and the residual says how far each column is from a
// singular vector of W. Sources: QR by row blocks, Demmel, Grigori, Hoemmen, Langou 2012; LAPACK
// geqrf, gesvd.
//
// Why not the eigenvalues of X^T (W^T W X), which the pass has anyway: they are squares, and those
// of values below sqrt(eps64) of the largest in the subspace are rounding.
#include "tail_pass.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/top/orthonormal.hpp"
#include "cpu/top/projection.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <utility>

namespace vindex::cpu {
namespace {

std::int64_t triangle_work(std::int64_t count) { return count * (kLapackBlock + 8); }

/// The triangular factor of rows that come block by block.
class RowFactor {
 public:
  RowFactor(std::int64_t count, std::int64_t max_rows, Workspace& workspace)
      : count_(count),
        rows_(count + max_rows),
        stack_(workspace, rows_ * count, "rows of a small factor"),
        work_(workspace, triangle_work(count), "a small factor") {
    std::fill_n(stack_.data(), stack_.size(), 0.0);
  }

  /// `block`: length x count, column-major.
  void add(const double* block, std::int64_t length) {
    for (std::int64_t j = 0; j < count_; ++j) {
      double* const column = stack_.data() + j * rows_;
      std::fill(column + j + 1, column + count_, 0.0);  // reflectors of the block before
      std::copy_n(block + j * length, length, column + count_);
    }
    const auto m = static_cast<lapack_int>(count_ + length);
    const auto n = static_cast<lapack_int>(count_);
    const auto stride = static_cast<lapack_int>(rows_);
    const auto work_size = static_cast<lapack_int>(count_ * kLapackBlock);
    lapack_int info = 0;
    blas::blas().LAPACK_dgeqrf(&m, &n, stack_.data(), &stride, work_.data() + work_size,
                               work_.data(), &work_size, &info);
    expects(info == 0, "dgeqrf accepts its arguments");
  }

  /// R to `out` (count x count, zero below the diagonal).
  void copy_to(double* out) const {
    for (std::int64_t j = 0; j < count_; ++j) {
      std::fill_n(out + j * count_, count_, 0.0);
      std::copy_n(stack_.data() + j * rows_, j + 1, out + j * count_);
    }
  }

  double* work() { return work_.data(); }

 private:
  std::int64_t count_;
  std::int64_t rows_;
  WorkArray<double> stack_, work_;
};

}  // namespace

std::uint64_t tail_values_bytes(const SvdPlan& plan, std::int64_t count) {
  const std::int64_t p = plan.short_side;
  return 2 * array_bytes(p * count, sizeof(double)) +
         array_bytes(plan.chunk * count, sizeof(double)) +
         array_bytes((plan.chunk + count) * count, sizeof(double)) +
         array_bytes(triangle_work(count), sizeof(double)) +
         2 * array_bytes(count * count, sizeof(double)) + normal_products_bytes(plan, count);
}

TailValues tail_values(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       WorkArray<double> start, std::int64_t count, Workspace& workspace,
                       double& seconds) {
  const std::int64_t p = plan.short_side;
  expects(start.size() == p * count, "tail_values: a start of the stated size");
  TailValues out;
  out.basis = std::move(start);
  out.residual = WorkArray<double>(workspace, p * count, "residual vectors");
  WorkArray<double> image(workspace, plan.chunk * count, "weights times vectors");
  RowFactor factor(count, plan.chunk, workspace);
  normal_products(reader, plan, change, count, out.basis, image, out.residual, workspace, seconds,
                  [&](const double* rows, std::int64_t length, std::int64_t /*first*/) {
                    factor.add(rows, length);
                  });

  const Stopwatch watch(seconds);
  WorkArray<double> small(workspace, 2 * count * count, "a small decomposition");
  double* const rows = small.data() + count * count;  // right vectors
  factor.copy_to(small.data());
  out.sigma.resize(static_cast<std::size_t>(count));
  const auto order = static_cast<lapack_int>(count);
  const auto work_size = static_cast<lapack_int>(triangle_work(count));
  const lapack_int one = 1;
  double unused = 0.0;
  lapack_int info = 0;
  blas::blas().LAPACK_dgesvd("N", "A", &order, &order, small.data(), &order, out.sigma.data(),
                             &unused, &one, rows, &order, factor.work(), &work_size, &info);
  if (info != 0) {
    out.sigma.clear();
    return out;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t i = 0; i < count; ++i) {
      small[j * count + i] = rows[i * count + j];
    }
  }
  rotate(out.basis.data(), p, count, small.data(), count, image);
  rotate(out.residual.data(), p, count, small.data(), count, image);
  for (std::int64_t j = 0; j < count; ++j) {
    const double value = out.sigma[static_cast<std::size_t>(j)];
    blas::blas().cblas_daxpy(as_int(p), -value * value, out.basis.data() + j * p, 1,
                             out.residual.data() + j * p, 1);
  }
  return out;
}

}  // namespace vindex::cpu
