// Owns orthonormal bases by Householder QR (LAPACK geqrf, orgqr) and their rotation by row blocks.
//
// Why Householder and not Gram-Schmidt or Cholesky QR: columns that come out of a filter or of
// inverse iteration lean on each other up to the last digit, and orthogonality of the others is
// lost with the condition of the columns (Cholesky QR: with its square). Reflectors give eps64
// whatever they are.
#include "orthonormal.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "core/integers.hpp"
#include "cpu/plan/svd_plan.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::cpu {
std::uint64_t orthonormal_bytes(std::int64_t count) {
  return array_bytes(count * (kLapackBlock + 1), sizeof(double));
}

void orthonormalise(double* columns, std::int64_t rows, std::int64_t count, Workspace& workspace) {
  WorkArray<double> work(workspace, count * (kLapackBlock + 1), "orthonormal basis");
  double* const tau = work.data() + count * kLapackBlock;
  blas::steps::geqrf(rows, count, {columns, rows}, tau, work.data(), workspace.stop());
  blas::steps::orgqr(rows, count, {columns, rows}, tau, work.data(), workspace.stop());
}

void rotate(double* matrix, std::int64_t rows, std::int64_t count, const double* rotation,
            std::int64_t wanted, WorkArray<double>& scratch) {
  const std::int64_t block = scratch.size() / wanted;
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t length = std::min(block, rows - first);
    blas::blas().cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, as_int(length),
                             as_int(wanted), as_int(count), 1.0, matrix + first, as_int(rows),
                             rotation, as_int(count), 0.0, scratch.data(), as_int(length));
    for (std::int64_t j = 0; j < wanted; ++j) {
      std::copy_n(scratch.data() + j * length, length, matrix + j * rows + first);
    }
  }
}

}  // namespace vindex::cpu
