// Owns the questions to CPUID behind that choice.
#include "simd_level.hpp"

namespace vindex::cpu {

SimdLevel best_simd_level() {
#if defined(__x86_64__)
  // The builtins ask CPUID once per process and include the check that the system saves the
  // registers.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return SimdLevel::kPortable;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return SimdLevel::kAvx2;
  }
  return __builtin_cpu_supports("avx512bf16") ? SimdLevel::kAvx512Bf16 : SimdLevel::kAvx512;
#else
  return SimdLevel::kPortable;
#endif
}

bool is_made_by_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

}  // namespace vindex::cpu
