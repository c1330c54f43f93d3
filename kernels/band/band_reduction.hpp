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

#include "band_layout.hpp"
#include "band_update.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// How A is updated and multiplied.
enum class BandRoute {
  kPlain,   ///< lower triangle in one pass, multiply-add of the CUDA cores
  kTensor,  ///< the same on the tensor cores (BandArithmetic::kTensor)
};

/// What a reduction of matrices of one order needs; a pure function of its arguments.
struct BandPlan {
  std::int64_t order = 0;       ///< of the padded matrices
  std::int64_t strip_rows = 0;  ///< rows per block of threads of the pass over the triangle
  BandRoute route = BandRoute::kPlain;
  int deferred_panels = 0;  ///< updated at once (deferred_band.hpp); 0: reduce_to_band() is used
  std::size_t shared_bytes = 0;  ///< where updates are deferred: what a block may ask for
  std::size_t workspace_bytes_per_matrix = 0;
};

/// Largest order that plan_band_reduction() takes.
std::int64_t largest_band_order();

/// `shared_bytes`: what a block may ask for on this device
/// (cudaDevAttrMaxSharedMemoryPerBlockOptin); from 99 KiB on every plan exists.
/// Errors: expects() on an order that is no multiple of kBand or above largest_band_order(), and on
/// too little shared memory. `defer`: for reduce_to_band_deferred() where that is float32 on the
/// tensor cores and the order makes it worth while.
template <typename Real>
BandPlan plan_band_reduction(std::int64_t order, BandRoute route, std::size_t shared_bytes,
                             bool defer = false);

/// Whether large matrices get deferred updates on such a device.
bool defers_updates(std::size_t shared_bytes);

/// Who multiplies a matrix by the power of two that makes its largest diagonal entry lie in
/// [1/2, 1).
enum class MatrixScale : std::uint8_t {
  kWanted,   ///< the reduction finds the exponents and applies them
  kFound,    ///< the exponents are there (find_exponents()), and are to be applied
  kApplied,  ///< the exponents are there and the matrices have been multiplied
};

/// A batch on the device. All arrays are the caller's.
template <typename Real>
struct BandBatch {
  /// Batch x order x order, symmetric positive semidefinite up to rounding, both triangles valid,
  /// zero beyond the true order; destroyed.
  Real* matrices;
  std::int64_t batch;  ///< at most 65535
  Real* band;          ///< gets batch x band_elements(order), layout of band_layout.hpp
  /// One per matrix, which is found where `scale` says so: eigenvalues are 2^exponent times the
  /// band's.
  std::int32_t* exponents;
  void* workspace;           ///< batch x workspace_bytes_per_matrix, aligned to 256 bytes
  bool keep_factor = false;  ///< leave Q in `matrices`, as band_back_transform.hpp has it
  MatrixScale scale = MatrixScale::kWanted;
};

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

/// The same with updates deferred over several panels, by a plan whose deferred_panels is not 0.
/// Reads the lower triangle and the diagonal blocks of kBand alone. Source: Wang et al. 2024
/// (arXiv 2410.02170).
void reduce_to_band_deferred(const BandPlan& plan, const BandBatch<float>& batch,
                             cudaStream_t stream);

/// Exponents of the matrices (row-major order x order) that make the largest diagonal entry of each
/// lie in [1/2, 1) where it is multiplied by 2^-exponents[i]. In a positive semidefinite matrix no
/// entry is larger than that. A matrix without a positive diagonal entry has exponent 0.
template <typename Real>
void find_exponents(const Real* matrices, std::int64_t order, std::int64_t batch,
                    std::int32_t* exponents, cudaStream_t stream);

/// Multiplies each matrix by 2^-exponents[i], in place; entries that are not finite stay so. Only
/// the lower triangle is scaled, and the upper parts of the diagonal blocks of kBand.
template <typename Real>
void scale_matrices(Real* matrices, std::int64_t order, std::int64_t batch,
                    const std::int32_t* exponents, cudaStream_t stream);

/// sums[i] = sum over the passes of ||what was left of matrix i||_F^2, in units of its band: the
/// part of the band behind a pass is similar to what that pass left. Layout of band_layout.hpp.
/// Ordered on `stream`; one order of summation. Host sibling: host/cpu/route/gram_route.cpp.
template <typename BandReal>
void sum_passes(const BandReal* bands, std::int64_t order, std::int64_t batch, double* sums,
                cudaStream_t stream);

}  // namespace vindex::kernels
