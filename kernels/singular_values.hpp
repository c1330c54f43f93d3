// Owns the numerical libraries' part of a measurement: Gram matrices by cuBLAS, eigenvalues and
// singular values by cuSOLVER, all in float64. A row-major rows x cols array is, to these
// libraries, column-major cols x rows.
#pragma once

#include "handles.hpp"

#include <cstdint>
#include <vector>

namespace vindex::kernels {

/// Handles and scratch of one stream; not thread-safe.
struct SolverLane {
  Stream stream = make_stream();
  BlasHandle blas = make_blas(stream.get());
  SolverHandle solver = make_solver(stream.get());
  SolverParameters parameters = make_solver_parameters();
  DeviceBuffer work{"solver workspace"};
  DeviceBuffer info{"solver status"};
  DeviceBuffer values{"eigenvalues"};
  std::vector<std::byte> host_work;
};

/// Adds the slab's share to the Gram matrix over the short side of the whole matrix: `gram` (p x p,
/// column-major, lower triangle) becomes W^T W (over_rows: the slab is `count` rows of p columns)
/// or W W^T (the slab is p rows of `count` columns); `first` overwrites instead of adding. One
/// float64 accumulation over the slab: no half-precision operand, so nothing of the full-K trap
/// applies.
void add_gram(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
              std::int64_t p, bool first, double* gram);

/// Eigenvalues, ascending, of `batch` symmetric p x p matrices (lower triangles; destroyed). out[i
/// * p + j]. converged[i] is 0 where the iteration failed. Calls are cut so that each stays below
/// cuSOLVER's 2 GiB limit. Waits for the stream. Source: cusolverDnXsyevBatched, values only.
void eigenvalues(SolverLane& lane, double* grams, std::int64_t p, std::int64_t batch, double* out,
                 std::vector<std::uint8_t>& converged);

/// Singular values, descending, of a row-major rows x cols matrix (destroyed) by bidiagonalisation;
/// empty where it did not converge. `transposed` is scratch of the same size, used where rows >
/// cols. Waits for the stream. Source: cusolverDnXgesvd, values only; it wants at least as many
/// rows as columns in its own order.
std::vector<double> singular_values(SolverLane& lane, double* matrix, std::int64_t rows,
                                    std::int64_t cols, DeviceBuffer& transposed);

}  // namespace vindex::kernels
