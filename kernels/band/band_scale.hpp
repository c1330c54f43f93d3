// Owns the exponents by which matrices are scaled before they are reduced.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

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

}  // namespace vindex::kernels
