#include "moments.hpp"

#include <cub/device/device_reduce.cuh>
#include <thrust/iterator/counting_iterator.h>

#include <cmath>

namespace vindex::kernels {

namespace {

/// Raw sums about a shift: exact to merge, and central moments follow without cancellation when the
/// shift is a typical value. The shift is the first weight: any of them serves.
struct Sums {
  std::int64_t count, zeros, nonfinite;
  double s1, s2, s3, s4, squares, min, max;
};

struct AddSums {
  __host__ __device__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.count + b.count,
            a.zeros + b.zeros,
            a.nonfinite + b.nonfinite,
            a.s1 + b.s1,
            a.s2 + b.s2,
            a.s3 + b.s3,
            a.s4 + b.s4,
            a.squares + b.squares,
            a.min < b.min ? a.min : b.min,
            a.max > b.max ? a.max : b.max};
  }
};

struct SumsOf {
  const float* first;  ///< the shift, if finite
  __host__ __device__ Sums operator()(float weight) const {
    constexpr double kInfinity = HUGE_VAL;
    if (!isfinite(weight)) {
      return {0, 0, 1, 0.0, 0.0, 0.0, 0.0, 0.0, kInfinity, -kInfinity};
    }
    const auto w = static_cast<double>(weight);
    const double d = w - (isfinite(*first) ? static_cast<double>(*first) : 0.0);
    const double d2 = d * d;
    return {1, w == 0.0 ? 1 : 0, 0, d, d2, d2 * d, d2 * d2, w * w, w, w};
  }
};

/// Runs a CUB reduction twice: once for its scratch size, once for its result.
template <typename Result, typename Reduce>
Result reduced(DeviceBuffer& scratch, cudaStream_t stream, Reduce&& reduce) {
  std::size_t bytes = 0;
  check(reduce(nullptr, bytes, static_cast<Result*>(nullptr)));
  constexpr std::size_t kResultRoom = 256;
  static_assert(sizeof(Result) <= kResultRoom);
  auto* memory = static_cast<unsigned char*>(scratch.reserve(bytes + kResultRoom));
  auto* result = reinterpret_cast<Result*>(memory);
  check(reduce(memory + kResultRoom, bytes, result));
  Result out{};
  check(cudaMemcpyAsync(&out, result, sizeof out, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  return out;
}

template <typename T>
struct WeightedSquare {
  const T* gram;
  std::int64_t n;
  __host__ __device__ double operator()(std::int64_t index) const {
    const std::int64_t col = index / n;
    const std::int64_t row = index - col * n;
    if (row < col) {
      return 0.0;
    }
    const auto value = static_cast<double>(gram[index]);
    return (row == col ? 1.0 : 2.0) * value * value;
  }
};

struct AddDoubles {
  __host__ __device__ double operator()(double a, double b) const { return a + b; }
};

}  // namespace

decode::Moments moments_of(const float* values, std::int64_t count, DeviceBuffer& scratch,
                           cudaStream_t stream) {
  decode::Moments out;
  if (count == 0) {
    return out;
  }
  const Sums nothing = {0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, HUGE_VAL, -HUGE_VAL};
  const Sums sums =
      reduced<Sums>(scratch, stream, [&](void* temporary, std::size_t& bytes, Sums* result) {
        return cub::DeviceReduce::TransformReduce(temporary, bytes, values, result, count,
                                                  AddSums{}, SumsOf{values}, nothing, stream);
      });
  float first = 0.0F;
  check(cudaMemcpyAsync(&first, values, sizeof first, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));
  const double shift = std::isfinite(first) ? static_cast<double>(first) : 0.0;
  out.count = sums.count;
  out.zeros = sums.zeros;
  out.nonfinite = sums.nonfinite;
  out.sum_squares = sums.squares;
  out.min = sums.min;
  out.max = sums.max;
  if (sums.count > 0) {
    const auto n = static_cast<double>(sums.count);
    const double m = sums.s1 / n;  // mean about the shift; raw moments to central ones
    out.mean = shift + m;
    out.m2 = sums.s2 - n * m * m;
    out.m3 = sums.s3 - 3.0 * m * sums.s2 + 2.0 * n * m * m * m;
    out.m4 = sums.s4 - 4.0 * m * sums.s3 + 6.0 * m * m * sums.s2 - 3.0 * n * m * m * m * m;
  }
  return out;
}

template <typename T>
double symmetric_norm_squared(const T* gram, std::int64_t n, DeviceBuffer& scratch,
                              cudaStream_t stream) {
  return reduced<double>(scratch, stream, [&](void* temporary, std::size_t& bytes, double* result) {
    return cub::DeviceReduce::TransformReduce(
        temporary, bytes, thrust::counting_iterator<std::int64_t>(0), result, n * n, AddDoubles{},
        WeightedSquare<T>{gram, n}, 0.0, stream);
  });
}

template double symmetric_norm_squared<float>(const float*, std::int64_t, DeviceBuffer&,
                                              cudaStream_t);
template double symmetric_norm_squared<double>(const double*, std::int64_t, DeviceBuffer&,
                                               cudaStream_t);

}  // namespace vindex::kernels
