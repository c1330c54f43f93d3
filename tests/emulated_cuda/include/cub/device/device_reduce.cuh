// cub::DeviceReduce in one fixed order. As with CUB, a call without temporary memory says how much
// it wants and does nothing else.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <emulated/device.hpp>
#include <vector>

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
      // As on a device, threads have a sum each and fold them: one running sum would round more.
      constexpr Count kThreads = 1024;
      std::vector<Start> totals(kThreads, start);
      for (Count i = 0; i < count; ++i) {
        Start& total = totals[static_cast<std::size_t>(i % kThreads)];
        total = combine(total, transform(in[i]));
      }
      for (std::size_t half = totals.size() / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) {
          totals[i] = combine(totals[i], totals[i + half]);
        }
      }
      *out = totals[0];
    });
    return cudaSuccess;
  }
};

}  // namespace cub
