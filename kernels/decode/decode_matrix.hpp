// Owns decoding on the device: one kernel over the decoders that the host uses too, and the small
// kernels that prepare weights for the libraries. All are ordered on `stream` and do not
// synchronise; sources must stay until it has.
//
// Also owns the moments of decoded weights on the device.
#pragma once
#include "decode/encoding/encoding.hpp"
#include "decode/formats/decode_view.hpp"
#include "decode/moments.hpp"
#include "kernels/device/handles.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Decodes `view` (pointers on the device) to `out`, row-major with `out_stride` floats between
/// rows; `rows` and `cols` at least 1.
///
/// Grid    a thread per four neighbouring weights of a few rows (decode_run.hpp); `out` and
///         `out_stride` multiples of 16 bytes are written in whole lines.
/// Errors  DeviceError; UsageError for an encoding without decoder.
void decode_matrix(const decode::Encoding& encoding, const decode::DecodeView& view, float* out,
                   std::int64_t out_stride, cudaStream_t stream);

/// Where the signs of a rectangle come from (metrics contract, sign-flip null).
struct SignFlip {
  std::uint64_t key = 0;
  std::uint64_t draw = 0;  ///< upper 64 bits of the counter
  bool transposed = false;
  std::int64_t whole_rows = 0, whole_cols = 0;  ///< of the matrix as stored
  std::int64_t first_row = 0, first_col = 0;    ///< of the rectangle
};
void flip_signs(float* values, std::int64_t rows, std::int64_t cols, const SignFlip& flip,
                cudaStream_t stream);

/// out[i] = double(values[i]).
void widen(const float* values, std::int64_t count, double* out, cudaStream_t stream);

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
