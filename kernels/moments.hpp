// Owns the moments of decoded weights on the device.
#pragma once

#include "handles.hpp"

#include <vindex/decode/decode_matrix.hpp>

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Moments of `count` contiguous floats on the device. Waits for `stream`.
/// The order of the sums depends on `count` and the device alone, so two runs give the same bits.
/// Source: CUB DeviceReduce::TransformReduce (run-to-run deterministic).
decode::Moments moments_of(const float* values, std::int64_t count, DeviceBuffer& scratch,
                           cudaStream_t stream);

/// sum over the full symmetric matrix of g_ij^2, of which `gram` (n x n, column-major) holds the
/// lower triangle.
template <typename T>
double symmetric_norm_squared(const T* gram, std::int64_t n, DeviceBuffer& scratch,
                              cudaStream_t stream);

}  // namespace vindex::kernels
