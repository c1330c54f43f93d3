// Owns the eigenvalues of a dense symmetric matrix for other layers (measure's and run's small
// problems), by the same reduction and bisection as those of a Gram matrix: a second solver would
// be a second error bound to keep.
#include "symmetric_eigenvalues.hpp"

#include "tridiagonal.hpp"

#include "cpu/workspace/workspace.hpp"
#include <vindex/error.hpp>

namespace vindex::cpu {

std::uint64_t symmetric_eigenvalues_bytes(std::int64_t n) {
  return tridiagonal_bytes(n, sizeof(double), false) + 4 * array_bytes(n, sizeof(double));
}

std::vector<double> symmetric_eigenvalues(std::span<double> matrix, std::int64_t n,
                                          const std::stop_token& stop) {
  expects(n >= 1 && matrix.size() == static_cast<std::size_t>(n) * static_cast<std::size_t>(n),
          "symmetric_eigenvalues: n x n values");
  if (n == 1) {
    return {matrix[0]};
  }
  Workspace workspace(0, stop);
  WorkArray<double> d(workspace, n, "eigenvalues");
  WorkArray<double> e(workspace, n, "eigenvalues");
  reduce_to_tridiagonal(matrix.data(), n, d.data(), e.data(), false, workspace);
  expects(solve_tridiagonal(d.data(), e.data(), n, false, workspace), "bisection ends");
  return {d.data(), d.data() + n};
}

}  // namespace vindex::cpu
