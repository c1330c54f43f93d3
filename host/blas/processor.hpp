// Owns what this processor says of itself and what of it can be used: the words of CPUID, the
// identification register of an ARM core. Reading is one function, judging is pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace vindex::blas {

/// x86-64. Source: Intel SDM volume 2A, CPUID and XGETBV; AMD APM volume 3, appendix E.
struct CpuidWords {
  std::string vendor;  ///< of leaf 0: "GenuineIntel", "AuthenticAMD"
  std::uint32_t leaf1_eax = 0, leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0, leaf7_1_eax = 0;
  std::uint32_t extended1_ecx = 0;
  std::uint64_t xcr0 = 0;  ///< registers the operating system saves; 0 where it does not say
};

/// ARM, 64 bits. Source: ARM DDI 0487, MIDR_EL1; Linux Documentation/arm64/elf_hwcaps.rst.
struct ArmWords {
  std::uint64_t midr = 0;  ///< of the first core; 0: unknown
  std::uint64_t hwcap = 0;
};

using Processor = std::variant<std::monostate, CpuidWords, ArmWords>;

/// The processor this runs on.
Processor this_processor();

/// What programs may use: the processor has it and the operating system saves its registers.
struct X86Features {
  int family = 0;  ///< extended family added
  bool sse42 = false;
  bool avx = false;
  bool fma4 = false;
  bool avx2_fma = false;
  bool avx512 = false;  ///< F, CD, BW, DQ and VL, as every server since Skylake has them
  bool avx512_bf16 = false;
};
X86Features usable_features(const CpuidWords& words);

struct ArmFeatures {
  std::uint32_t implementer = 0, part = 0;
  bool dot_product = false;  ///< every core since ARMv8.4, and the Neoverse N1
  bool sve = false;
};
ArmFeatures usable_features(const ArmWords& words);

}  // namespace vindex::blas
