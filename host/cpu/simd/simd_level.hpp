// Owns the run-time choice among SIMD variants of the measure kernels: one binary serves every
// x86-64, and each variant can be forced so that tests compare them.
#pragma once

namespace vindex::cpu {

/// What a kernel may use. Each level includes those before it.
enum class SimdLevel {
  kPortable,   ///< baseline of the build; the reference of every kernel
  kAvx2,       ///< AVX2 and FMA
  kAvx512,     ///< AVX-512 F, BW, DQ, VL
  kAvx512Bf16  ///< and AVX512_BF16 (vdpbf16ps)
};

/// The highest level this processor and operating system support.
SimdLevel best_simd_level();

/// True on a processor by AMD: the same instructions have other speeds than on Intel's.
bool is_made_by_amd();

}  // namespace vindex::cpu
