// Owns the element-wise steps between the products of a search for the smallest singular vectors.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// The same fixed pseudo-random block (rows x count, column-major, `leading` between columns) in
/// every one of `slots`, `stride` apart.
void fill_start(double* columns, std::int64_t rows, std::int64_t count, std::int64_t leading,
                std::int64_t stride, std::int64_t slots, cudaStream_t stream);

/// correction = basis - scales[slot] * correction, `elements` in each slot.
void subtract_correction(const double* basis, const double* scales, double* correction,
                         std::int64_t elements, std::int64_t slots, cudaStream_t stream);

/// norms[j] = the norm of column j of `columns` contiguous ones of `rows`.
void column_norms(const double* from, std::int64_t rows, std::int64_t columns, double* norms,
                  cudaStream_t stream);

}  // namespace vindex::kernels
