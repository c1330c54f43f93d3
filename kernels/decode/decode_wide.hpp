// Owns decoding several small matrices to float64 in one launch, with their raw sums on the way:
// one at a time, launches and not their work would be what a small matrix costs.
#pragma once

#include "decode_matrix.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

namespace vindex::kernels {

/// Matrices of a call.
inline constexpr std::int64_t kDecodedTogether = 16;

/// Elements of the workspace for each matrix of this shape; depends on the shape alone.
std::int64_t wide_sum_parts(std::int64_t rows, std::int64_t cols);

/// Decodes `views` (of one shape and encoding, on the device; at most kDecodedTogether) to `out`,
/// one behind the other, row-major, and takes their raw sums to moments[i], as take_moments() but
/// in an order of its own, which depends on the shape alone. `parts`: kDecodedTogether times
/// wide_sum_parts(). Ordered on `stream`, does not wait.
/// Errors: DeviceError; UsageError for an encoding without decoder.
void decode_wide(const decode::Encoding& encoding, std::span<const decode::DecodeView> views,
                 double* out, RawMoments* parts, RawMoments* moments, cudaStream_t stream);

}  // namespace vindex::kernels
