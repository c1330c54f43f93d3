#include "cpu_info.hpp"

#include <cblas.h>

#include <algorithm>
#include <fstream>
#include <sched.h>
#include <string>

namespace vindex::measure {
namespace {

/// "model name" of /proc/cpuinfo, or the machine's architecture where that has none.
std::string processor_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      if (colon != std::string::npos) {
        return line.substr(colon + 2);
      }
    }
  }
  return "unknown processor";
}

/// "OpenBLAS 0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string library_version() {
  const std::string config = openblas_get_config();
  const auto second_space = config.find(' ', config.find(' ') + 1);
  return config.substr(0, second_space);
}

}  // namespace

BackendInfo cpu_backend_info() {
  return {.name = "cpu",
          .device = processor_model(),
          .libraries = {library_version() + " " + openblas_get_corename()}};
}

std::int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace vindex::measure
