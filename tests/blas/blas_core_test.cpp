// Which kernels of OpenBLAS a processor gets, by what it says of itself: processors that nobody has
// at hand are tables of words here. Words: leaf 1 EAX of each model as Linux prints them.
#include "blas/blas_core.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::blas::blas_core_test {
namespace {

constexpr std::uint32_t kSse42 = 1U << 20U;
constexpr std::uint32_t kOsSavesAvx = 1U << 27U;
constexpr std::uint32_t kAvx = 1U << 28U;
constexpr std::uint32_t kFma = 1U << 12U;
constexpr std::uint32_t kLeaf1OfAvx2 = kSse42 | kOsSavesAvx | kAvx | kFma;
constexpr std::uint32_t kAvx2 = 1U << 5U;
constexpr std::uint32_t kAvx512 =
    (1U << 16U) | (1U << 17U) | (1U << 28U) | (1U << 30U) | (1U << 31U);
constexpr std::uint32_t kAvx512OfPhi = (1U << 16U) | (1U << 26U) | (1U << 27U) | (1U << 28U);
constexpr std::uint32_t kBf16 = 1U << 5U;
constexpr std::uint32_t kFma4 = 1U << 16U;
constexpr const char* kIntel = "GenuineIntel";
constexpr const char* kAmd = "AuthenticAMD";

struct X86Case {
  std::string name;
  CpuidWords words;
  std::string core;  ///< empty: left to the library
};

CpuidWords words_of(const char* vendor, std::uint32_t signature, std::uint32_t leaf1,
                    std::uint32_t leaf7, std::uint32_t leaf7_1, std::uint64_t xcr0,
                    std::uint32_t extended = 0) {
  return {.vendor = vendor,
          .leaf1_eax = signature,
          .leaf1_ecx = leaf1,
          .leaf7_ebx = leaf7,
          .leaf7_1_eax = leaf7_1,
          .extended1_ecx = extended,
          .xcr0 = xcr0};
}

std::vector<X86Case> x86_cases() {
  constexpr std::uint32_t k512 = kAvx2 | kAvx512;
  return {
      {"Emerald Rapids", words_of(kIntel, 0xC06F2, kLeaf1OfAvx2, k512, kBf16, 0x602E7), "SkylakeX"},
      {"Sapphire Rapids", words_of(kIntel, 0x806F8, kLeaf1OfAvx2, k512, kBf16, 0x602E7),
       "SkylakeX"},
      {"Granite Rapids", words_of(kIntel, 0xA06D1, kLeaf1OfAvx2, k512, kBf16, 0x602E7), "SkylakeX"},
      {"a Xeon that is not born yet",
       words_of(kIntel, 0x1F06F0, kLeaf1OfAvx2, k512, kBf16, 0x602E7), "SkylakeX"},
      {"Skylake-X", words_of(kIntel, 0x50654, kLeaf1OfAvx2, k512, 0, 0x2E7), "SkylakeX"},
      {"Cascade Lake", words_of(kIntel, 0x50657, kLeaf1OfAvx2, k512, 0, 0x2E7), "SkylakeX"},
      {"Cooper Lake", words_of(kIntel, 0x5065B, kLeaf1OfAvx2, k512, kBf16, 0x2E7), "SkylakeX"},
      {"Ice Lake", words_of(kIntel, 0x606A6, kLeaf1OfAvx2, k512, 0, 0x2E7), "SkylakeX"},
      {"Zen 4", words_of(kAmd, 0xA10F11, kLeaf1OfAvx2, k512, kBf16, 0xE7), "SkylakeX"},
      {"Zen 5", words_of(kAmd, 0xB00F21, kLeaf1OfAvx2, k512, kBf16, 0xE7), "SkylakeX"},
      {"Knights Landing", words_of(kIntel, 0x50671, kLeaf1OfAvx2, kAvx2 | kAvx512OfPhi, 0, 0xE7),
       "Haswell"},
      {"Alder Lake", words_of(kIntel, 0x90672, kLeaf1OfAvx2, kAvx2, 0, 0x207), "Haswell"},
      {"Haswell", words_of(kIntel, 0x306F2, kLeaf1OfAvx2, kAvx2, 0, 0x7), "Haswell"},
      {"Broadwell", words_of(kIntel, 0x406F1, kLeaf1OfAvx2, kAvx2, 0, 0x7), "Haswell"},
      {"a hypervisor that hides AVX-512", words_of(kIntel, 0xC06F2, kLeaf1OfAvx2, kAvx2, 0, 0x7),
       "Haswell"},
      {"AVX-512 that the system does not save",
       words_of(kIntel, 0xC06F2, kLeaf1OfAvx2, k512, kBf16, 0x7), "Haswell"},
      {"an unknown vendor with AVX2",
       words_of("  Shanghai  ", 0x107B0, kLeaf1OfAvx2, kAvx2, 0, 0x7), "Haswell"},
      {"Zen 2", words_of(kAmd, 0x830F10, kLeaf1OfAvx2, kAvx2, 0, 0x207), "Zen"},
      {"Zen 3", words_of(kAmd, 0xA00F11, kLeaf1OfAvx2, kAvx2, 0, 0x207), "Zen"},
      {"Hygon", words_of("HygonGenuine", 0x900F02, kLeaf1OfAvx2, kAvx2, 0, 0x7), "Zen"},
      {"Sandy Bridge", words_of(kIntel, 0x206D7, kSse42 | kOsSavesAvx | kAvx, 0, 0, 0x7),
       "Sandybridge"},
      {"Zen whose AVX2 is hidden", words_of(kAmd, 0xA00F11, kSse42 | kOsSavesAvx | kAvx, 0, 0, 0x7),
       "Sandybridge"},
      {"AVX2 that the system does not save", words_of(kIntel, 0x306F2, kLeaf1OfAvx2, kAvx2, 0, 0x3),
       "Nehalem"},
      {"a system without XSAVE",
       words_of(kIntel, 0x306F2, kLeaf1OfAvx2 & ~kOsSavesAvx, kAvx2, 0, 0), "Nehalem"},
      {"Nehalem", words_of(kIntel, 0x106A5, kSse42, 0, 0, 0), "Nehalem"},
      {"Piledriver", words_of(kAmd, 0x600F20, kLeaf1OfAvx2, 0, 0, 0x7, kFma4), ""},
      {"Barcelona", words_of(kAmd, 0x100F23, 0, 0, 0, 0), ""},
      {"Core 2", words_of(kIntel, 0x6FB, 0, 0, 0, 0), ""},
  };
}

std::string first_of(const std::vector<std::string_view>& names) {
  return names.empty() ? std::string() : std::string(names.front());
}

TEST(BlasCore, X86GoesByInstructionsAndNotByModels) {
  for (const X86Case& one : x86_cases()) {
    const auto fitting = fitting_blas_cores(one.words);
    EXPECT_EQ(first_of(fitting), one.core) << one.name;
    if (!fitting.empty()) {
      EXPECT_EQ(lacking_for_blas_core(fitting.front(), one.words), "") << one.name;
    }
  }
}

TEST(BlasCore, KernelsThatWouldDieAreKnown) {
  const CpuidWords milan = words_of(kAmd, 0xA00F11, kLeaf1OfAvx2, kAvx2, 0, 0x207);
  EXPECT_EQ(lacking_for_blas_core("SkylakeX", milan), "AVX-512");
  EXPECT_EQ(lacking_for_blas_core("skylakex", milan), "AVX-512");
  EXPECT_EQ(lacking_for_blas_core("Cooperlake", milan), "AVX-512");
  EXPECT_EQ(lacking_for_blas_core("Excavator", milan), "FMA4");
  for (const char* const runs :
       {"Haswell", "Zen", "Sandybridge", "Nehalem", "Prescott", "Unheard"}) {
    EXPECT_EQ(lacking_for_blas_core(runs, milan), "") << runs;
  }
  const CpuidWords cascade_lake =
      words_of(kIntel, 0x50657, kLeaf1OfAvx2, kAvx2 | kAvx512, 0, 0x2E7);
  EXPECT_EQ(lacking_for_blas_core("Cooperlake", cascade_lake), "AVX-512 with bfloat16");
  EXPECT_EQ(lacking_for_blas_core("Haswell", words_of(kIntel, 0x206D7, kSse42, 0, 0, 0)),
            "AVX2 and FMA");
  EXPECT_EQ(lacking_for_blas_core("neoversev1", ArmWords{.midr = 0x410fd0c0}), "SVE");
  EXPECT_EQ(lacking_for_blas_core("neoversen1", ArmWords{.midr = 0x410fd0c0}), "");
}

TEST(BlasCore, ArmGoesByCoreAndVectorLength) {
  constexpr std::uint64_t kDot = 1U << 20U;
  constexpr std::uint64_t kSve = 1U << 22U;
  struct Case {
    std::string name;
    std::uint64_t midr, hwcap;
    std::string core;
  };
  for (const Case& one : std::vector<Case>{
           {"Cortex-A53", 0x410fd034, 0, "cortexa53"},
           {"Cortex-A57", 0x411fd070, 0, "cortexa57"},
           {"Cortex-A72, Graviton", 0x410fd083, 0, "cortexa72"},
           {"Neoverse N1, Graviton 2, Ampere Altra", 0x413fd0c1, kDot, "neoversen1"},
           {"Neoverse V1, Graviton 3", 0x411fd401, kDot | kSve, "neoversev1"},
           {"Neoverse V1 whose SVE is hidden", 0x411fd401, kDot, "neoversen1"},
           {"Neoverse N2", 0x410fd490, kDot | kSve, "neoversen2"},
           {"Neoverse V2, Graviton 4, Grace", 0x410fd4f0, kDot | kSve, "neoversen2"},
           {"Neoverse V2 whose SVE is hidden", 0x410fd4f0, kDot, "neoversen1"},
           {"Apple M1", 0x611f0221, kDot, "neoversen1"},
           {"Ampere One", 0xc00fac30, kDot, "neoversen1"},
           {"an unknown core with dot products", 0, kDot, "neoversen1"},
           {"A64FX", 0x460f0010, kSve, ""},
           {"ThunderX2", 0x431f0af1, 0, ""},
           {"TaiShan v110, Kunpeng 920", 0x481fd010, kDot, ""},
           {"TaiShan v120", 0x480fd020, kDot | kSve, "neoversen1"},
           {"Neoverse N2 of Microsoft, Cobalt", 0x6d0fd490, kDot | kSve, "neoversen2"},
           {"an unknown old core", 0, 0, ""}}) {
    const ArmWords words{.midr = one.midr, .hwcap = one.hwcap};
    const auto fitting = fitting_blas_cores(words);
    EXPECT_EQ(first_of(fitting), one.core) << one.name;
    if (!fitting.empty()) {
      EXPECT_EQ(lacking_for_blas_core(fitting.front(), words), "") << one.name;
    }
  }
}

TEST(BlasCore, WarnsOfPoorKernelsAndUnknownNames) {
  const std::vector<std::string_view> xeon = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  const std::string version = "OpenBLAS 0.3.21";
  EXPECT_EQ(blas_core_warning(version, "SkylakeX", "", xeon), "");
  EXPECT_EQ(blas_core_warning(version, "Cooperlake", "", xeon), "");
  EXPECT_EQ(blas_core_warning(version, "SkylakeX", "skylakex", xeon), "");
  EXPECT_EQ(blas_core_warning(version, "Prescott", "", {}), "") << "no better is known";

  const std::string forced = blas_core_warning(version, "Prescott", "Prescott", xeon);
  EXPECT_TRUE(forced.starts_with("W-BLAS-KERNELS: OpenBLAS 0.3.21 computes with its Prescott"))
      << forced;
  EXPECT_NE(forced.find("SkylakeX"), std::string::npos) << forced;
  EXPECT_NE(forced.find("unset OPENBLAS_CORETYPE"), std::string::npos) << forced;

  const std::string unknown = blas_core_warning(version, "SkylakeX", "Skylake", xeon);
  EXPECT_NE(unknown.find("none called Skylake"), std::string::npos) << unknown;
  EXPECT_EQ(unknown.find("unset"), std::string::npos) << unknown;

  const std::string built_for_one = blas_core_warning(version, "Haswell", "", xeon);
  EXPECT_NE(built_for_one.find("DYNAMIC_ARCH"), std::string::npos) << built_for_one;
  const std::string wished_in_vain = blas_core_warning(version, "Haswell", "SkylakeX", xeon);
  EXPECT_NE(wished_in_vain.find("DYNAMIC_ARCH"), std::string::npos) << wished_in_vain;
  EXPECT_EQ(wished_in_vain.find("unset"), std::string::npos) << wished_in_vain;
}

#if defined(__x86_64__)
TEST(BlasCore, ReadsThisProcessorAsTheCompilerDoes) {
  const Processor processor = this_processor();
  ASSERT_TRUE(std::holds_alternative<CpuidWords>(processor));
  const X86Features has = usable_features(std::get<CpuidWords>(processor));
  EXPECT_EQ(has.sse42, __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ(has.avx, __builtin_cpu_supports("avx") != 0);
  EXPECT_EQ(has.fma4, __builtin_cpu_supports("fma4") != 0);
  EXPECT_EQ(has.avx2_fma,
            __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(has.avx512,
            __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512cd") != 0 &&
                __builtin_cpu_supports("avx512bw") != 0 &&
                __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0);
}
#endif

}  // namespace
}  // namespace vindex::blas::blas_core_test
