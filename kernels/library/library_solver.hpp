// Owns the numerical libraries' part of a measurement, all in float64: Gram matrices by cuBLAS,
// eigenvalues, QR and singular values by cuSOLVER. A row-major rows x cols array is, to these
// libraries, column-major cols x rows.
#pragma once

#include "kernels/device/symmetric_eigen.hpp"

#include <cstdint>
#include <vector>

namespace vindex::kernels {

/// cuSOLVER on a stream, begun when it is first asked for: most routes never do, and the library
/// loads a few hundred MB for it.
class LateSolver {
 public:
  explicit LateSolver(cudaStream_t stream) : stream_(stream) {}
  /// Errors: DeviceError.
  cusolverDnHandle_t get() {
    if (handle_ == nullptr) {
      handle_ = make_solver(stream_);
    }
    return handle_.get();
  }
  cusolverDnParams_t parameters() {
    if (parameters_ == nullptr) {
      parameters_ = make_solver_parameters();
    }
    return parameters_.get();
  }

 private:
  cudaStream_t stream_;
  SolverHandle handle_;
  SolverParameters parameters_;
};

/// Handles and scratch of one stream; not thread-safe.
struct SolverLane {
  Stream stream = make_stream();
  BlasHandle blas = make_blas(stream.get());
  LateSolver solver{stream.get()};
  DeviceBuffer work{"solver workspace"};
  std::vector<std::byte> host_work;
  bool one_by_one = false;  ///< see EigenLibrary

  EigenLibrary eigen_library(bool singly) {
    return {.stream = stream.get(),
            .solver = solver.get(),
            .parameters = solver.parameters(),
            .work = &work,
            .host_work = &host_work,
            .one_by_one = singly};
  }
};

/// Adds the slab's share to the Gram matrix over the short side of the whole matrix: the lower
/// triangle of `gram` (p x p, column-major, `leading` between columns) becomes W^T W (over_rows:
/// the slab is `count` rows of p columns) or W W^T (the slab is p rows of `count` columns); `first`
/// overwrites instead of adding. One float64 accumulation over the slab: no half-precision operand,
/// so nothing of the full-K trap applies. Does not wait.
void add_gram(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
              std::int64_t p, std::int64_t leading, bool first, double* gram);

/// The same for `matrices` whole slabs, one behind the other, both triangles: grams[i], leading^2
/// apart, is overwritten. For matrices so small that a product of one leaves most of a device idle.
/// Its bits may depend on `matrices`, as the library chooses an algorithm by it.
void form_grams_together(SolverLane& lane, const double* slabs, bool over_rows, std::int64_t count,
                         std::int64_t p, std::int64_t leading, std::int64_t matrices,
                         double* grams);

/// symmetric_eigen(), values only, on the lane and in the way that its device is trusted with.
void library_eigenvalues(SolverLane& lane, double* matrices, std::int64_t p, std::int64_t batch,
                         double* values, int* failed);

/// Scratch and result of a QR decomposition by row blocks.
struct TriangularFactor {
  double* stack = nullptr;  ///< (p + rows) x p, column-major: R on top, the next rows below
  double* r = nullptr;      ///< p x p, column-major, zero below the diagonal
  double* tau = nullptr;    ///< p
  int* info = nullptr;      ///< 1
};
std::int64_t stack_elements(std::int64_t p, std::int64_t rows);

/// Makes `factor.r` the triangular factor of what it was (nothing where `first`) and the slab
/// below: over_rows: `count` rows of p columns, row-major; else p rows of `count` columns,
/// row-major. On the first call count >= p. Waits for the stream. Source: cusolverDnXgeqrf; Demmel,
/// Grigori, Hoemmen, Langou 2012 (TSQR).
void add_to_factor(SolverLane& lane, const double* slab, bool over_rows, std::int64_t count,
                   std::int64_t p, bool first, const TriangularFactor& factor);

/// Singular values, descending, of the p x p column-major matrix (destroyed); empty where the
/// iteration did not converge. `values`: room for p doubles on the device. Waits for the stream.
/// Source: cusolverDnXgesvd, values only: bidiagonalisation.
std::vector<double> library_singular_values(SolverLane& lane, double* matrix, std::int64_t p,
                                            double* values, int* info);

}  // namespace vindex::kernels
