// Owns asking the processor and the operating system what they can run.
#include "simd_level.hpp"

namespace vindex::decode {

std::string_view simd_level_name(SimdLevel level) {
  switch (level) {
    case SimdLevel::kAvx512:
      return "avx512";
    case SimdLevel::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

bool is_supported(SimdLevel level) {
  // The builtin also asks the operating system whether it saves the wide registers.
  switch (level) {
    case SimdLevel::kBaseline:
      return true;
    case SimdLevel::kAvx2:
      return __builtin_cpu_supports("avx2") != 0;
    case SimdLevel::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    default:
      return false;
  }
}

SimdLevel best_simd_level() {
  static const SimdLevel kBest = [] {
    for (const SimdLevel level : {SimdLevel::kAvx512, SimdLevel::kAvx2}) {
      if (is_supported(level)) {
        return level;
      }
    }
    return SimdLevel::kBaseline;
  }();
  return kBest;
}

}  // namespace vindex::decode
