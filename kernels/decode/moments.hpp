// Owns the moments of decoded weights on the device.
#pragma once

#include "device/handles.hpp"

#include <vindex/decode/decode_matrix.hpp>

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Raw sums of weights about a shift, the first weight where that is finite: exact to merge, and
/// central moments follow without cancellation when the shift is a typical value. Written on the
/// device.
struct RawMoments {
  std::int64_t count, zeros, nonfinite;
  double s1, s2, s3, s4, squares, min, max;
  float first;
};

/// Bytes of scratch that take_moments() needs for up to `count` weights.
std::size_t moments_scratch_bytes(std::int64_t count);

/// Raw sums of `count` > 0 contiguous floats on the device to `*out` there. Ordered on `stream`,
/// does not wait. The order of the sums depends on `count` and the device alone, so two runs give
/// the same bits. Source: CUB DeviceReduce::TransformReduce (run-to-run deterministic).
void take_moments(const float* values, std::int64_t count, void* scratch, std::size_t scratch_bytes,
                  RawMoments* out, cudaStream_t stream);

/// On the host, of sums copied back.
decode::Moments moments_of(const RawMoments& raw);

}  // namespace vindex::kernels
