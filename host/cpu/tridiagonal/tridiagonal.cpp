// Owns the choice between the kernels of this folder and LAPACK's. Small matrices go to sytrd:
// below kMinBandOrder their trailing matrices lie in the nearest cache, where one stage is bound by
// nothing that two would help. Route `library` takes sytrd and sterf throughout, as the reference.
//
// The tridiagonal matrix is always float64, whatever its reduction was: sterf or bisection in
// float32 would lose 10 to 60 times more than the float32 reduction did, for a saving of O(p^2).
#include "tridiagonal.hpp"

#include "simd_bisection.hpp"
#include "simd_tridiagonal.hpp"

#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::cpu {
namespace {

/// Below this order the band is the matrix and two stages gain nothing.
constexpr std::int64_t kMinBandOrder = 128;

template <typename Real>
void reduce_by_band(const Real* matrix, std::int64_t p, double* d, double* e,
                    Workspace& workspace) {
  WorkArray<std::byte> work(
      workspace, static_cast<std::int64_t>(tridiagonalise_workspace_bytes(p, sizeof(Real))),
      "tridiagonal reduction");
  const auto count = static_cast<std::size_t>(p);
  tridiagonalise(matrix, p, p, {d, count}, {e, count}, work.span(), nullptr, best_simd_level(),
                 workspace.stop());
}

}  // namespace

bool is_reduced_by_band(std::int64_t p, bool library) {
  return !library && p >= kMinBandOrder && tridiagonalise_is_fast();
}

std::uint64_t tridiagonal_bytes(std::int64_t p, std::size_t size, bool library) {
  return is_reduced_by_band(p, library)
             ? array_bytes(static_cast<std::int64_t>(tridiagonalise_workspace_bytes(p, size)), 1)
             : 3 * array_bytes(p, size) + array_bytes(p * blas::steps::kBlock, size);
}

void reduce_to_tridiagonal(float* matrix, std::int64_t p, double* d, double* e, bool library,
                           Workspace& workspace) {
  if (is_reduced_by_band(p, library)) {
    reduce_by_band(matrix, p, d, e, workspace);
    return;
  }
  WorkArray<float> narrow_d(workspace, p, "tridiagonal form");
  WorkArray<float> narrow_e(workspace, p, "tridiagonal form");
  WorkArray<float> tau(workspace, p, "Householder factors");
  WorkArray<float> work(workspace, p * blas::steps::kBlock, "tridiagonal reduction");
  blas::steps::sytrd(p, {matrix, p}, narrow_d.data(), narrow_e.data(), tau.data(), work.data(),
                     workspace.stop());
  std::copy_n(narrow_d.data(), p, d);
  std::copy_n(narrow_e.data(), p - 1, e);
}

void reduce_to_tridiagonal(double* matrix, std::int64_t p, double* d, double* e, bool library,
                           Workspace& workspace) {
  if (is_reduced_by_band(p, library)) {
    reduce_by_band(matrix, p, d, e, workspace);
    return;
  }
  WorkArray<double> tau(workspace, p, "Householder factors");
  WorkArray<double> work(workspace, p * blas::steps::kBlock, "tridiagonal reduction");
  blas::steps::sytrd(p, {matrix, p}, d, e, tau.data(), work.data(), workspace.stop());
}

bool solve_tridiagonal(double* d, double* e, std::int64_t p, bool library, Workspace& workspace) {
  if (!library) {
    WorkArray<double> values(workspace, p, "eigenvalues");
    tridiagonal_eigenvalues({d, static_cast<std::size_t>(p)}, {e, static_cast<std::size_t>(p - 1)},
                            values.span(), best_simd_level(), workspace.stop());
    std::copy_n(values.data(), p, d);
    return true;
  }
  const auto n = static_cast<lapack_int>(p);
  lapack_int info = 0;
  blas::blas().LAPACK_dsterf(&n, d, e, &info);
  expects(info >= 0, "dsterf accepts its arguments");
  return info == 0;
}

}  // namespace vindex::cpu
