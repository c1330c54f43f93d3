// Owns the third stage of the symmetric eigenvalue problem on the device: all eigenvalues of a
// batch of tridiagonal matrices in float64 or float32, a thread per eigenvalue.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

enum class ValueOrder : std::uint8_t { kAscending, kDescending };

/// Rows of T that lie in shared memory at a time; where T has more it passes through in pieces, for
/// every step again. 4096 take 64 KiB, so that 3 blocks of 256 threads share a multiprocessor.
inline constexpr std::int64_t kTridiagonalRowsInShared = 4096;

/// All eigenvalues of `batch` symmetric tridiagonal matrices. Ordered on `stream`.
///
/// Shapes    diagonal, off_diagonal, values: batch x n; the last off_diagonal of a matrix is not
///           read. failed: batch, 1 where an entry is not finite (its values are then NaN), else 0.
/// Method    Sturm counts in product form, at as many points at once as a block has threads; twice,
///           the second time between the values of the block alone; then every thread bisects until
///           its value is alone in its interval, and interpolates the determinant, safeguarded
///           (Chandrupatla 1997).
/// Accuracy  absolute error a few eps64 times ||T||, clusters and zeros included; off-diagonal
///           entries below eps64 / 8 of the largest entry's power of two are replaced by that.
/// Range     any finite matrix (scaled by a power of two inside).
/// Result    the same bits for every batch and rows_in_shared, a multiple of 16; values are
///           monotone. At most a fixed number of steps.
/// Source    Barth, Martin, Wilkinson 1967; host sibling host/cpu/tridiagonal/simd_bisection.hpp.
void tridiagonal_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                        std::int64_t batch, ValueOrder order, double* values, int* failed,
                        cudaStream_t stream,
                        std::int64_t rows_in_shared = kTridiagonalRowsInShared);

/// The same in float32, for matrices whose entries are float32 numbers or might as well be; values
/// come as float64 numbers.
///
/// Accuracy  absolute error 2^-23 times ||T|| at most, a third of that rms, clusters and zeros
///           included; of what the smallest rows of a graded T hold, relative to those.
/// Range     as above, but that entries below 2^-120 of the largest count as zero.
void tridiagonal_values32(const double* diagonal, const double* off_diagonal, std::int64_t n,
                          std::int64_t batch, ValueOrder order, double* values, int* failed,
                          cudaStream_t stream,
                          std::int64_t rows_in_shared = kTridiagonalRowsInShared);

}  // namespace vindex::kernels
