// Owns the name of the processor and the libraries and instructions that the CPU back end reports.
#include "cpu_info.hpp"

#include "backend/backend.hpp"

#include <fstream>
#include <string>

namespace vindex::cpu {

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

BackendInfo cpu_info(const blas::BlasInfo& blas, const std::string& unit,
                     const std::string& unit_note) {
  BackendInfo info{.name = "cpu", .device = processor_model(), .libraries = {blas.text()}};
  if (!blas.warning.empty()) {
    info.notes.push_back(blas.warning);
  }
  if (!unit.empty()) {
    info.libraries.push_back(unit);
  }
  if (!unit_note.empty()) {
    info.notes.push_back(unit_note);
  }
  return info;
}

}  // namespace vindex::cpu
