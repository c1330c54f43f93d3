// Owns the choice among OpenBLAS's kernels (its "core types"). Its own choice goes by tables of
// models: a processor younger than the library gets kernels of 2004. Ours goes by instructions.
// Pure.
//
// Also owns what this processor says of itself and what of it can be used: the words of CPUID, the
// identification register of an ARM core. Reading is one function, judging is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// Names of the core types that suit a processor, as OpenBLAS spells them (it ignores case): the
/// first is asked for, the others are as good where a version prefers them. Empty: the library
/// knows this processor better (everything older than AVX, AMD without AVX2).
/// The first is one that 0.3.21 (Debian 12) and every later version knows: asked for a name it does
/// not have, it takes its oldest kernels on ARM.
/// Source of the names: OpenBLAS driver/others/dynamic.c, dynamic_arm64.c.
std::vector<std::string_view> fitting_blas_cores(const Processor& processor);

/// What `core` needs and `processor` lacks ("AVX-512"), empty where nothing is known to be missing:
/// OpenBLAS believes whoever names a core type and dies of an illegal instruction.
std::string_view lacking_for_blas_core(std::string_view core, const Processor& processor);

/// True for two spellings of one name.
bool is_same_core(std::string_view a, std::string_view b);

/// A warning "W-BLAS-KERNELS: ..." where `version` ("OpenBLAS 0.3.21") computes with kernels
/// `taken` that are not among the fitting ones, or that are not what the user wished for; else
/// empty.
std::string blas_core_warning(const std::string& version, std::string_view taken,
                              std::string_view wish, const std::vector<std::string_view>& fitting);

}  // namespace vindex::blas
