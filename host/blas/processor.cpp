// Owns reading CPUID, XCR0 and the identification register of an ARM core, and the judgement which
// of the instructions found there can be used.
#include "blas_core.hpp"

#include <array>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace vindex::blas {
namespace {

constexpr bool bit(std::uint64_t word, int position) { return ((word >> position) & 1U) != 0; }

/// XCR0: vector registers of SSE and AVX; of AVX-512 also masks and both halves of the registers.
constexpr std::uint64_t kAvxState = 0x06;
constexpr std::uint64_t kAvx512State = 0xE6;

#if defined(__x86_64__)
std::uint64_t read_xcr0() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32U) | low;
}
#endif

}  // namespace

Processor this_processor() {
#if defined(__x86_64__)
  CpuidWords words;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) {
    return {};
  }
  std::array<char, 12> vendor{};
  std::memcpy(vendor.data(), &b, 4);
  std::memcpy(vendor.data() + 4, &d, 4);
  std::memcpy(vendor.data() + 8, &c, 4);
  words.vendor.assign(vendor.data(), vendor.size());
  __get_cpuid(1, &words.leaf1_eax, &b, &words.leaf1_ecx, &d);
  if (__get_cpuid_count(7, 0, &a, &words.leaf7_ebx, &c, &d) != 0 && a >= 1) {
    __get_cpuid_count(7, 1, &words.leaf7_1_eax, &b, &c, &d);
  }
  __get_cpuid(0x80000001U, &a, &b, &words.extended1_ecx, &d);
  if (bit(words.leaf1_ecx, 27)) {  // OSXSAVE: the instruction is there
    words.xcr0 = read_xcr0();
  }
  return words;
#elif defined(__aarch64__)
  ArmWords words;
  words.hwcap = ::getauxval(AT_HWCAP);
  constexpr std::uint64_t kHwcapCpuid = 1U << 11U;  // the kernel answers for the register
  if ((words.hwcap & kHwcapCpuid) != 0) {
    __asm__("mrs %0, midr_el1" : "=r"(words.midr));
  } else {
    std::ifstream file("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
    file >> std::hex >> words.midr;
  }
  return words;
#else
  return {};
#endif
}

X86Features usable_features(const CpuidWords& words) {
  X86Features found;
  const std::uint32_t base_family = (words.leaf1_eax >> 8U) & 0xFU;
  found.family =
      static_cast<int>(base_family + (base_family == 0xF ? (words.leaf1_eax >> 20U) & 0xFFU : 0U));
  found.sse42 = bit(words.leaf1_ecx, 20);
  const bool saves_avx = bit(words.leaf1_ecx, 27) && (words.xcr0 & kAvxState) == kAvxState;
  found.avx = saves_avx && bit(words.leaf1_ecx, 28);
  found.fma4 = found.avx && bit(words.extended1_ecx, 16);
  found.avx2_fma = found.avx && bit(words.leaf7_ebx, 5) && bit(words.leaf1_ecx, 12);
  found.avx512 = found.avx2_fma && (words.xcr0 & kAvx512State) == kAvx512State;
  for (const int feature : {16, 17, 28, 30, 31}) {  // F, DQ, CD, BW, VL
    found.avx512 = found.avx512 && bit(words.leaf7_ebx, feature);
  }
  found.avx512_bf16 = found.avx512 && bit(words.leaf7_1_eax, 5);
  return found;
}

ArmFeatures usable_features(const ArmWords& words) {
  return {.implementer = static_cast<std::uint32_t>((words.midr >> 24U) & 0xFFU),
          .part = static_cast<std::uint32_t>((words.midr >> 4U) & 0xFFFU),
          .dot_product = bit(words.hwcap, 20),
          .sve = bit(words.hwcap, 22)};
}

}  // namespace vindex::blas
