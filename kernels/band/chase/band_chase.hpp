// Owns the second stage of tridiagonalisation on the device: band matrices of half bandwidth kBand
// to tridiagonal ones by chasing bulges, a block per matrix.
#pragma once

#include "kernels/band/band_layout.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// How much of a band one block works on at a time.
struct ChaseShape {
  int sweeps = 0;       ///< under way at once, two warps each
  int ring_blocks = 0;  ///< of kBand columns that lie in shared memory
  std::size_t shared_bytes = 0;
};

/// The most sweeps for `shared_limit` bytes of shared memory per block (what the device grants on
/// request: 227 KiB on sm_90, 163 on sm_80, 99 on sm_89), at most `most_sweeps` and 7, in
/// float32 14. The arithmetic on an element is the same for every shape. `element_bytes`: of Real
/// in chase_bands(). Errors: UsageError where not even 2 sweeps fit.
ChaseShape chase_shape(std::size_t shared_limit, std::size_t element_bytes, int most_sweeps = 14);

/// Elements of Stored that hold one band of order n, and the distance to the next of a batch.
constexpr std::int64_t chase_elements(std::int64_t n) { return band_elements(band_order(n)); }

/// Reduces each of `batch` band matrices (band_layout.hpp; destroyed) to a symmetric tridiagonal
/// matrix with the same eigenvalues. Ordered on `stream`.
///
/// Shapes    bands: matrix b at b * chase_elements(n), 16-byte aligned; only 0 <= i - j <= kBand
///           and i < n are read. diagonal, off_diagonal: batch x n, the last off_diagonal zero.
/// Scale     entries of magnitude about 1 at most; reflections of columns below the square root of
///           the smallest normal number of Real are left out.
/// Types     Real: shared memory and arithmetic; Stored: what is kept of the band between two
///           passes over it. <double, double> is the accurate one; <float, double> halves the
///           traffic (0.5 MB per matrix at n = 2048) and rounds every element once per pass;
///           <float, float> is for devices whose float64 runs at 1/64 of float32.
/// Accuracy  largest error of an eigenvalue over the norm, bands of noise of order 2048, in the
///           emulation: <double, double> 2e-14, <float, double> 4e-8, <float, float> 3e-7. A
///           float32 first stage alone makes 6e-8, so <float, double> is its match.
/// Result    the same bits for every batch; a non-finite entry makes non-finite values.
/// Source    Haidar, Ltaief, Dongarra 2011 (bulge chasing by reflectors of a whole column); host
///           sibling host/cpu/band/simd_band_reduction.hpp.
template <typename Stored, typename Real>
void chase_bands(Stored* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                 double* diagonal, double* off_diagonal, cudaStream_t stream);

}  // namespace vindex::kernels
