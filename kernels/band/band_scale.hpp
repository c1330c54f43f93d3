// Owns the scale of the matrices that are reduced to bands: a power of two per matrix, so that
// squares neither overflow nor all underflow and nothing is rounded.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Multiplies each matrix (row-major order x order, in place) by 2^-exponents[i], which makes its
/// largest diagonal entry lie in [1/2, 1), and stores the exponents. In a positive semidefinite
/// matrix no entry is larger than that. A matrix without a positive diagonal entry has exponent 0;
/// entries that are not finite stay so. `full`: both triangles; else the lower one and the upper
/// parts of the diagonal blocks of kBand.
template <typename Real>
void scale_matrices(Real* matrices, std::int64_t order, std::int64_t batch, bool full,
                    std::int32_t* exponents, cudaStream_t stream);

}  // namespace vindex::kernels
