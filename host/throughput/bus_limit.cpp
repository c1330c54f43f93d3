// The bus to a GPU as a limit: pinned memory copied by the driver's own library, found at run time,
// so that a program built without CUDA's toolkit can measure it too. Declarations are the driver
// API's (CUDA Driver API reference, modules Memory Management and Event Management).
#include "machine_limits.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <dlfcn.h>

namespace vindex::throughput {

namespace {

/// The few functions needed, by the names the library exports.
class Driver {
 public:
  Driver() : library_(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {}
  bool is_present() const { return library_ != nullptr; }

  /// Calls `name`. Errors: DeviceError E-CUDA naming the function and its status.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(::dlsym(library_, name));
    const int status = function == nullptr ? -1 : function(arguments...);
    if (status != 0) {
      throw DeviceError("E-CUDA", fmt::format("{} returned {}", name, status));
    }
  }
  /// The same where nothing can be done about a failure.
  template <typename... Arguments>
  void release(const char* name, Arguments... arguments) const noexcept {
    using Function = int (*)(Arguments...);
    const auto function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function != nullptr) {
      (void)function(arguments...);
    }
  }

 private:
  void* library_;  // stays loaded: CUDA does not survive being unloaded
};

using DevicePointer = std::uint64_t;

/// A pinned block, one on the device, and two events in the device's primary context.
class Copy {
 public:
  Copy(const Driver& driver, int device, std::size_t bytes)
      : driver_(driver), device_(device), bytes_(bytes) {
    driver_.call("cuDevicePrimaryCtxRetain", &context_, device_);
    try {
      driver_.call("cuCtxSetCurrent", context_);
      driver_.call("cuMemHostAlloc", &host_, bytes_, 0U);
      driver_.call("cuMemAlloc_v2", &target_, bytes_);
      driver_.call("cuEventCreate", &start_, 0U);
      driver_.call("cuEventCreate", &end_, 0U);
    } catch (...) {
      release();
      throw;
    }
    std::uint64_t state = 1;
    auto* const words = static_cast<std::uint64_t*>(host_);
    std::generate(words, words + bytes_ / sizeof(std::uint64_t),
                  [&state] { return state = state * 6364136223846793005U + 1442695040888963407U; });
  }
  ~Copy() { release(); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  double gigabytes_per_second() {
    void* const default_stream = nullptr;
    float milliseconds = 0.0F;
    driver_.call("cuEventRecord", start_, default_stream);
    driver_.call("cuMemcpyHtoDAsync_v2", target_, static_cast<const void*>(host_), bytes_,
                 default_stream);
    driver_.call("cuEventRecord", end_, default_stream);
    driver_.call("cuEventSynchronize", end_);
    driver_.call("cuEventElapsedTime", &milliseconds, start_, end_);
    return 1e-6 * static_cast<double>(bytes_) / static_cast<double>(milliseconds);
  }

 private:
  void release() noexcept {
    if (start_ != nullptr) {
      driver_.release("cuEventDestroy_v2", start_);
    }
    if (end_ != nullptr) {
      driver_.release("cuEventDestroy_v2", end_);
    }
    if (target_ != 0) {
      driver_.release("cuMemFree_v2", target_);
    }
    if (host_ != nullptr) {
      driver_.release("cuMemFreeHost", host_);
    }
    driver_.release("cuDevicePrimaryCtxRelease_v2", device_);
  }

  const Driver& driver_;
  int device_;
  std::size_t bytes_;
  void* context_ = nullptr;
  void* host_ = nullptr;
  DevicePointer target_ = 0;
  void* start_ = nullptr;
  void* end_ = nullptr;
};

}  // namespace

Row bus_row(std::int32_t device, const Sampling& sampling) {
  constexpr std::size_t kBytes = 256U << 20U;
  Row row{.name = "probe.h2d", .route = "pinned, 256 MiB", .backend = "cuda", .unit = "gb_per_s"};
  const Driver driver;
  if (!driver.is_present()) {
    row.note = "no NVIDIA driver on this machine (libcuda.so.1 is not found)";
    return row;
  }
  try {
    driver.call("cuInit", 0U);
    Copy copy(driver, device, kBytes);
    row.samples = take_samples(sampling, [&] { return copy.gigabytes_per_second(); });
  } catch (const DeviceError& error) {
    row.note = error.what();
  }
  return row;
}

}  // namespace vindex::throughput
