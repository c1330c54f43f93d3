// Owns what kernel tests stand on: arrays on the device, and a fixture that skips where there is no
// device and, in the emulation, runs each case under several fiber orders.
#pragma once

#include "kernels/device/handles.hpp"
#include "kernels/device/launch.hpp"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace vindex::test {

/// Sets the order in which the emulation runs threads; nothing on a device. 0: by index.
void set_thread_order(std::uint64_t seed);
/// True in the emulation, where sizes must be small.
bool is_emulated();

/// Whether this process is to try a variant of a kernel: VINDEX_TEST_VARIANTS names them, separated
/// by commas (scripts/gpu_check.sh gives each a process of its own); all where it is not set.
inline bool is_tried(const std::string& variant) {
  const char* const chosen = std::getenv("VINDEX_TEST_VARIANTS");
  return chosen == nullptr ||
         ("," + std::string(chosen) + ",").find("," + variant + ",") != std::string::npos;
}

/// An array of T in device memory.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    data_ = buffer_.reserve_array<T>(count == 0 ? 1 : count);
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) {
    kernels::check(
        cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    // From pageable memory the call may return before the bytes are there, and the streams of these
    // tests do not wait for the default one.
    kernels::check(cudaDeviceSynchronize());
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}

  T* data() { return data_; }
  std::size_t size() const { return count_; }
  /// Waits for the device.
  std::vector<T> values() const {
    std::vector<T> out(count_);
    kernels::check(cudaDeviceSynchronize());
    kernels::check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  kernels::DeviceBuffer buffer_{"test"};
  T* data_ = nullptr;
  std::size_t count_;
};

/// Parameterised over thread orders: INSTANTIATE_THREAD_ORDERS(MyTest).
class KernelTest : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      const char* const required = std::getenv("VINDEX_REQUIRE");
      if (required != nullptr && std::string(required) == "cuda") {
        FAIL() << "VINDEX_REQUIRE=cuda, but: " << cudaGetErrorString(status);
      }
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(status);
    }
    if (!is_emulated() && GetParam() != 0) {
      GTEST_SKIP() << "a device has its own thread order";
    }
    set_thread_order(GetParam());
    // A kernel that faults is then the one that the failure names.
    kernels::launches_are_awaited = std::getenv("VINDEX_AWAIT_LAUNCHES") != nullptr;
    stream_ = kernels::make_stream();
  }
  void TearDown() override { set_thread_order(0); }
  cudaStream_t stream() { return stream_.get(); }

 private:
  kernels::Stream stream_;
};

#define INSTANTIATE_THREAD_ORDERS(Fixture)                                       \
  INSTANTIATE_TEST_SUITE_P(Orders, Fixture, ::testing::Values(0ULL, 1ULL, 2ULL), \
                           [](const auto& instance) { return std::to_string(instance.param); })

}  // namespace vindex::test
