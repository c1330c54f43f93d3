// Owns asking the processor whether it has a matrix unit and the kernel for its registers, and the
// sentence that says why a unit which is there is not used.
#include "matrix_unit.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace vindex::cpu {

namespace {

#if defined(__x86_64__)
/// Source: Linux, Documentation/arch/x86/xstate.rst, "Using dynamically enabled XSTATE features".
void ask_for_tiles(MatrixUnitFacts& facts) {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) {
    facts.is_permitted = true;
  } else {
    facts.refusal = std::generic_category().message(errno);
  }
#else
  facts.refusal = "no way to ask this system for tile registers is known";
#endif
}

std::uint64_t enabled_states() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32U | low;
}

MatrixUnitFacts find_facts() {
  MatrixUnitFacts facts;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::uint32_t d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) {
    return facts;
  }
  facts.has_bfloat16 = (d >> 22U & 1U) != 0;
  facts.has_tiles = (d >> 24U & 1U) != 0;
  facts.has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  constexpr std::uint64_t kTileStates = 3ULL << 17U;
  const bool has_xgetbv = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 27U & 1U) != 0;
  facts.saves_tiles = has_xgetbv && (enabled_states() & kTileStates) == kTileStates;
  if (facts.has_tiles && facts.has_bfloat16 && facts.saves_tiles) {
    ask_for_tiles(facts);
  }
  return facts;
}
#endif

}  // namespace

MatrixUnitChoice choose_matrix_unit(const MatrixUnitFacts& facts, MatrixUnitPreference wish) {
  if (!facts.has_tiles || !facts.has_bfloat16) {
    return {};
  }
  if (wish == MatrixUnitPreference::kNone) {
    return {};
  }
  const std::string unit = "the processor's matrix unit (AMX) is not used: ";
  if (!facts.saves_tiles) {
    return {.note = unit + "the system does not save its registers"};
  }
  if (!facts.is_permitted) {
    return {.note = unit + "the system refuses its registers (" + facts.refusal + ")"};
  }
  if (!facts.has_avx512) {
    return {.note = unit + "AVX-512 is missing beside it"};
  }
  return {.is_used = true};
}

const MatrixUnitFacts& matrix_unit_facts() {
#if defined(__x86_64__)
  static const MatrixUnitFacts facts = find_facts();
#else
  static const MatrixUnitFacts facts;
#endif
  return facts;
}

}  // namespace vindex::cpu
