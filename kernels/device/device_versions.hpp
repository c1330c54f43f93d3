// Owns the words for what drives a device: versions for the environment of a run.
#pragma once

#include "check.hpp"

#include <string>
#include <vector>

namespace vindex::kernels {

/// "12.4.1" of cuBLAS and cuSOLVER, which tell theirs in three parts by one call each.
template <typename Status>
std::string library_version(Status (*property)(libraryPropertyType, int*)) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  check(property(MAJOR_VERSION, &major));
  check(property(MINOR_VERSION, &minor));
  check(property(PATCH_LEVEL, &patch));
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

/// "driver for CUDA 12.8", "CUDA runtime 12.6". Errors: DeviceError.
inline std::vector<std::string> cuda_versions() {
  const auto text = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  return {"driver for CUDA " + text(driver), "CUDA runtime " + text(runtime)};
}

}  // namespace vindex::kernels
