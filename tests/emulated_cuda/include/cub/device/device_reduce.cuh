// cub::DeviceReduce in one fixed order. As with CUB, a call without temporary memory says how much
// it wants and does nothing else.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <emulated/device.hpp>

namespace cub {  // NOLINT

struct DeviceReduce {
  template <typename Input, typename Output, typename Count, typename Combine, typename Transform,
            typename Start>
  static cudaError_t TransformReduce(void* temporary, std::size_t& bytes, Input in, Output out,
                                     Count count, Combine combine, Transform transform, Start start,
                                     cudaStream_t stream = nullptr) {
    constexpr std::size_t kTemporaryBytes = 64;
    if (temporary == nullptr) {
      bytes = kTemporaryBytes;
      return cudaSuccess;
    }
    if (bytes < kTemporaryBytes || !vindex::emulated::is_device_memory(temporary, bytes)) {
      return cudaErrorInvalidValue;
    }
    vindex::emulated::submit(stream, [=] {
      Start total = start;
      for (Count i = 0; i < count; ++i) {
        total = combine(total, transform(in[i]));
      }
      *out = total;
    });
    return cudaSuccess;
  }
};

}  // namespace cub
