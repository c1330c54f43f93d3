// Owns the norms of the passes of a reduction, from the bands that it left.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// sums[i] = sum over the passes of ||what was left of matrix i||_F^2, in units of its band: the
/// part of the band behind a pass is similar to what that pass left. Layout of band_layout.hpp.
/// Ordered on `stream`; one order of summation. Host sibling: host/cpu/route/gram_route.cpp.
template <typename BandReal>
void sum_passes(const BandReal* bands, std::int64_t order, std::int64_t batch, double* sums,
                cudaStream_t stream);

}  // namespace vindex::kernels
