#include "tridiagonal.hpp"

#include "lapack.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>

namespace vindex::measure {
namespace {

constexpr std::int64_t kBlock = 32;

}  // namespace

void reduce_to_tridiagonal(float* matrix, std::int64_t p, double* d, double* e,
                           Workspace& workspace) {
  WorkArray<float> narrow_d(workspace, p, "tridiagonal form");
  WorkArray<float> narrow_e(workspace, p, "tridiagonal form");
  WorkArray<float> tau(workspace, p, "Householder factors");
  WorkArray<float> work(workspace, p * kBlock, "tridiagonal reduction");
  const auto n = static_cast<lapack_int>(p);
  const auto work_size = static_cast<lapack_int>(p * kBlock);
  lapack_int info = 0;
  LAPACK_ssytrd("L", &n, matrix, &n, narrow_d.data(), narrow_e.data(), tau.data(), work.data(),
                &work_size, &info);
  expects(info == 0, "ssytrd accepts its arguments");
  std::copy_n(narrow_d.data(), p, d);
  std::copy_n(narrow_e.data(), p - 1, e);
}

void reduce_to_tridiagonal(double* matrix, std::int64_t p, double* d, double* e,
                           Workspace& workspace) {
  WorkArray<double> tau(workspace, p, "Householder factors");
  WorkArray<double> work(workspace, p * kBlock, "tridiagonal reduction");
  const auto n = static_cast<lapack_int>(p);
  const auto work_size = static_cast<lapack_int>(p * kBlock);
  lapack_int info = 0;
  LAPACK_dsytrd("L", &n, matrix, &n, d, e, tau.data(), work.data(), &work_size, &info);
  expects(info == 0, "dsytrd accepts its arguments");
}

bool tridiagonal_eigenvalues(double* d, double* e, std::int64_t p) {
  const auto n = static_cast<lapack_int>(p);
  lapack_int info = 0;
  LAPACK_dsterf(&n, d, e, &info);
  expects(info >= 0, "dsterf accepts its arguments");
  return info == 0;
}

}  // namespace vindex::measure
