// Owns the calls of cuSOLVER for eigenvalues of batches of symmetric matrices, in float64, within
// the limits of its batched solver.
#pragma once

#include "handles.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::kernels {

/// The library, where it works, and scratch that is kept between calls; not owned.
struct EigenLibrary {
  cudaStream_t stream = nullptr;
  cusolverDnHandle_t solver = nullptr;
  cusolverDnParams_t parameters = nullptr;
  DeviceBuffer* work = nullptr;
  std::vector<std::byte>* host_work = nullptr;
  /// Xsyevd for each matrix instead of XsyevBatched: slow, for where the other is not trusted.
  bool one_by_one = false;
};

/// Matrices of order n that one call of XsyevBatched takes: below 2 GiB together, and 16 k, since
/// failures are reported near 32 k.
std::int64_t matrices_per_call(std::int64_t n);

/// Eigenvalues, ascending, of `batch` symmetric n x n matrices (column-major, contiguous, lower
/// triangles) to values[i * n + j]; with `vectors` the matrices become the eigenvectors, else they
/// are destroyed. info[i] is not 0 where an iteration failed. All pointers on the device. Waits for
/// the stream. Errors: DeviceError, also for an argument that the library refuses.
/// Source: cusolverDnXsyevBatched, cusolverDnXsyevd.
void symmetric_eigen(const EigenLibrary& library, double* matrices, std::int64_t n,
                     std::int64_t batch, bool vectors, double* values, int* info);

/// Waits for the stream; returns what `routine` left in `info`. Errors: DeviceError for a refused
/// argument.
int status_of(cudaStream_t stream, const int* info, const char* routine);

}  // namespace vindex::kernels
