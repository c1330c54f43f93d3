#include "cpu_info.hpp"

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

}  // namespace

BackendInfo cpu_backend_info(const BlasInfo& blas) {
  BackendInfo info{.name = "cpu", .device = processor_model(), .libraries = {blas.text()}};
  if (!blas.warning.empty()) {
    info.notes.push_back(blas.warning);
  }
  return info;
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
