// Owns the sums of weights, squares and non-finite values of an array on the device, by CUB's
// reduction in float64: its order is fixed, so the bits are too.
#include "decode_matrix.hpp"
#include "raw_sums.hpp"

#include <cub/device/device_reduce.cuh>

#include <cmath>
#include <cstddef>

namespace vindex::kernels {

namespace {

struct AddSums {
  __host__ __device__ RawMoments operator()(const RawMoments& a, const RawMoments& b) const {
    return add_sums(a, b);
  }
};

struct SumsOf {
  const float* first;  ///< the shift, if finite
  __host__ __device__ RawMoments operator()(float weight) const {
    return sums_of(weight, shift_of(*first));
  }
};

cudaError_t reduce(void* scratch, std::size_t& bytes, const float* values, std::int64_t count,
                   RawMoments* out, cudaStream_t stream) {
  return cub::DeviceReduce::TransformReduce(scratch, bytes, values, out, count, AddSums{},
                                            SumsOf{values}, no_sums(), stream);
}

}  // namespace

std::size_t moments_scratch_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  check(reduce(nullptr, bytes, nullptr, count, nullptr, nullptr));
  return bytes;
}

void take_moments(const float* values, std::int64_t count, void* scratch, std::size_t scratch_bytes,
                  RawMoments* out, cudaStream_t stream) {
  check(reduce(scratch, scratch_bytes, values, count, out, stream));
  check(cudaMemcpyAsync(reinterpret_cast<unsigned char*>(out) + offsetof(RawMoments, first), values,
                        sizeof(float), cudaMemcpyDeviceToDevice, stream));
}

decode::Moments moments_of(const RawMoments& raw) {
  decode::Moments out;
  const double shift = std::isfinite(raw.first) ? static_cast<double>(raw.first) : 0.0;
  out.count = raw.count;
  out.zeros = raw.zeros;
  out.nonfinite = raw.nonfinite;
  out.sum_squares = raw.squares;
  out.min = raw.min;
  out.max = raw.max;
  if (raw.count > 0) {
    const auto n = static_cast<double>(raw.count);
    const double m = raw.s1 / n;  // mean about the shift; raw moments to central ones
    out.mean = shift + m;
    out.m2 = raw.s2 - n * m * m;
    out.m3 = raw.s3 - 3.0 * m * raw.s2 + 2.0 * n * m * m * m;
    out.m4 = raw.s4 - 4.0 * m * raw.s3 + 6.0 * m * m * raw.s2 - 3.0 * n * m * m * m * m;
  }
  return out;
}

}  // namespace vindex::kernels
