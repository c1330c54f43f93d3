// Owns the judgement of a core type: which ones suit the instructions of a processor, best first,
// which instruction a given one lacks, and the warning where OpenBLAS took another.
#include "blas_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace vindex::blas {
namespace {

using Names = std::vector<std::string_view>;

/// AMD, and Hygon's Zen.
bool is_of_amd(const CpuidWords& words) {
  return words.vendor == "AuthenticAMD" || words.vendor == "HygonGenuine";
}

constexpr int kFirstZenFamily = 23;

Names fitting(const CpuidWords& words) {
  const X86Features has = usable_features(words);
  if (has.avx512) {
    // One set of float32 and float64 kernels under three names; the younger two add bfloat16.
    return {"SkylakeX", "Cooperlake", "SapphireRapids"};
  }
  if (has.avx2_fma) {
    // The same kernels with two block sizes: equal within the noise on a Milan (one thread, seven
    // interleaved rounds; docs/runs/performance.md).
    return is_of_amd(words) ? Names{"Zen", "Haswell"} : Names{"Haswell", "Zen"};
  }
  if (is_of_amd(words) && has.family < kFirstZenFamily) {
    return {};
  }
  if (has.avx) {
    return {"Sandybridge"};
  }
  return has.sse42 ? Names{"Nehalem"} : Names{};
}

bool is_in(const ArmFeatures& has, std::span<const std::uint32_t> parts) {
  return std::find(parts.begin(), parts.end(), has.part) != parts.end();
}

/// ARM's own cores. Source: ARM DDI 0487 and the technical reference manuals, MIDR_EL1.PartNum.
Names fitting_of_arm(const ArmFeatures& has) {
  constexpr std::array<std::uint32_t, 9> kLikeNeoverseN1 = {
      0xd0b, 0xd0c, 0xd0d, 0xd41, 0xd42, 0xd44, 0xd4b, 0xd4c, 0xd4a};  // A76..A78, X1, N1, E1
  constexpr std::array<std::uint32_t, 12> kLikeNeoverseN2 = {
      0xd47, 0xd48, 0xd49, 0xd4d, 0xd4e, 0xd4f, 0xd81, 0xd82, 0xd83, 0xd84, 0xd87, 0xd8e};
  switch (has.part) {
    case 0xd03:
      return {"cortexa53", "cortexa55"};
    case 0xd05:
      return {"cortexa55", "cortexa53"};
    case 0xd07:
      return {"cortexa57"};
    case 0xd08:
      return {"cortexa72", "cortexa57"};
    case 0xd09:
    case 0xd0a:
      return {"cortexa73", "cortexa72", "cortexa57"};
    case 0xd40:  // Neoverse V1
      return has.sve ? Names{"neoversev1", "armv8sve"} : Names{"neoversen1"};
    default:
      break;
  }
  if (is_in(has, kLikeNeoverseN2)) {  // SVE2 of 128 bits: N2, N3, V2, V3, A710 and after
    return has.sve ? Names{"neoversen2", "neoversev2", "neoversev1", "armv8sve", "armv9sme"}
                   : Names{"neoversen1"};
  }
  return is_in(has, kLikeNeoverseN1) || has.dot_product
             ? Names{"neoversen1", "armv8sve", "armv9sme"}
             : Names{};
}

Names fitting(const ArmWords& words) {
  const ArmFeatures has = usable_features(words);
  switch (has.implementer) {
    case 0x41:
    case 0x6d:  // Microsoft's Cobalt is a Neoverse N2 under ARM's part number
      return fitting_of_arm(has);
    case 0x42:
    case 0x46:
    case 0x50:
      return {};  // Broadcom, Fujitsu, the first Ampere: the library has their kernels
    case 0x43:
      if (has.part == 0x0a1 || has.part == 0x0af || has.part == 0x0b8) {
        return {};  // ThunderX, X2, X3
      }
      break;
    case 0x48:
      if (has.part == 0xd01) {  // TaiShan v110
        return {};
      }
      break;
    default:
      break;
  }
  // Apple, Ampere One, Qualcomm, NVIDIA and whoever comes next. NEON runs on all of them; kernels
  // for SVE are compiled for one width and one revision of the architecture.
  return has.dot_product ? Names{"neoversen1", "armv8sve", "armv9sme"} : Names{};
}

bool is_one_of(std::string_view core, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return is_same_core(core, name); });
}

std::string_view lacking(std::string_view core, const CpuidWords& words) {
  const X86Features has = usable_features(words);
  if (is_one_of(core, {"Cooperlake", "SapphireRapids"}) && !has.avx512_bf16) {
    return has.avx512 ? "AVX-512 with bfloat16" : "AVX-512";
  }
  if (is_one_of(core, {"SkylakeX"}) && !has.avx512) {
    return "AVX-512";
  }
  if (is_one_of(core, {"Haswell", "Zen"}) && !has.avx2_fma) {
    return "AVX2 and FMA";
  }
  if (is_one_of(core, {"Opteron", "Opteron_SSE3"}) &&
      !(is_of_amd(words) && has.family < kFirstZenFamily)) {
    return "3DNow!";
  }
  if (is_one_of(core, {"Bulldozer", "Piledriver", "Steamroller", "Excavator"}) && !has.fma4) {
    return "FMA4";
  }
  if (is_one_of(core, {"Sandybridge"}) && !has.avx) {
    return "AVX";
  }
  return {};
}

std::string_view lacking(std::string_view core, const ArmWords& words) {
  const bool wants_sve =
      is_one_of(core, {"neoversev1", "neoversev2", "neoversen2", "armv8sve", "armv9sme", "a64fx"});
  return wants_sve && !usable_features(words).sve ? "SVE" : std::string_view();
}

}  // namespace

std::vector<std::string_view> fitting_blas_cores(const Processor& processor) {
  if (const auto* words = std::get_if<CpuidWords>(&processor)) {
    return fitting(*words);
  }
  if (const auto* words = std::get_if<ArmWords>(&processor)) {
    return fitting(*words);
  }
  return {};
}

std::string_view lacking_for_blas_core(std::string_view core, const Processor& processor) {
  if (const auto* words = std::get_if<CpuidWords>(&processor)) {
    return lacking(core, *words);
  }
  if (const auto* words = std::get_if<ArmWords>(&processor)) {
    return lacking(core, *words);
  }
  return {};
}

bool is_same_core(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string blas_core_warning(const std::string& version, std::string_view taken,
                              std::string_view wish, const std::vector<std::string_view>& fitting) {
  const auto is_fitting = [&](std::string_view core) {
    return std::any_of(fitting.begin(), fitting.end(),
                       [&](std::string_view name) { return is_same_core(core, name); });
  };
  const bool fits = fitting.empty() || is_fitting(taken);
  const bool has_wish = wish.empty() || is_same_core(taken, wish);
  if (fits && has_wish) {
    return {};
  }
  std::string text = fmt::format("W-BLAS-KERNELS: {} computes with its {} kernels", version, taken);
  if (!has_wish) {
    text += fmt::format(", it has none called {} (OPENBLAS_CORETYPE)", wish);
  }
  if (fits) {
    return text;
  }
  text += fmt::format("; this processor can have {}, which may be several times as fast: ",
                      fitting.front());
  return text + (wish.empty() || is_fitting(wish)
                     ? "this OpenBLAS has them not; install one that is built with "
                       "DYNAMIC_ARCH (Debian: libopenblas0-pthread)"
                     : "unset OPENBLAS_CORETYPE");
}

}  // namespace vindex::blas
