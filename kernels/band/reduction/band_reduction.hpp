// Owns the first stage of the two-stage tridiagonalisation on the device: batches of dense
// symmetric matrices to bands of half bandwidth kBand with the same eigenvalues.
//
// Per panel of kBand columns, on one stream, so that each launch is the barrier for the next:
//
//   factor     the panel, one block of threads per matrix (band_panel.hpp)
//   multiply   A <- A - V' W'^T - W' V'^T of the panel before, Y = A V (band_update.hpp)
//   form       V^T V, V^T Y, the small factors (band_factors.hpp)
//   advance    W, and the next panel and diagonal block ahead of the rest of the update
//   keep       on request, the factor Q of A = Q B Q^T (band_back_transform.hpp)
//
// Nothing waits for the host and nothing is allocated: a call can be captured in a CUDA graph.
#pragma once

#include "kernels/band/band_batch.hpp"
#include "kernels/band/band_layout.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// `shared_bytes`: what a block may ask for on this device
/// (cudaDevAttrMaxSharedMemoryPerBlockOptin); from 99 KiB on every plan exists.
/// Errors: expects() on an order that is no multiple of kBand or above largest_band_order(), and on
/// too little shared memory. `defer`: for reduce_to_band_deferred() where that is float32 on the
/// tensor cores and the order makes it worth while.
template <typename Real>
BandPlan plan_band_reduction(std::int64_t order, BandRoute route, std::size_t shared_bytes,
                             bool defer = false);

/// Reduces the batch, ordered on `stream`.
///
/// Zero columns, exact dependence and rank deficiency are ordinary input: a reflector of nothing is
/// the identity. A matrix that holds not-a-number or infinity gets a band that does, and does no
/// harm to others. Bits depend on the matrix and the plan, and on nothing else.
/// Accuracy  eigenvalues to a few eps * norm of the matrix in the precision of Real.
/// Source    Bischof, Lang, Sun 2000 (SBR); Dongarra, Sorensen, Hammarling 1989 (two-sided block
///           update); host sibling host/cpu/band/simd_band_reduction.hpp.
template <typename Real>
void reduce_to_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream);

}  // namespace vindex::kernels
