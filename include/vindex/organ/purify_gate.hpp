// Owns the decision whether a matrix may be purified: a pure function of what is known of it, with
// its reason in words. Denoisers do harm where there is no noise to take away: on a power-law
// spectrum every one of them leaves many times the error that it finds. So the bulk of the spectrum
// must look like noise, something must stand out of it, and not much may be lost.
#pragma once

#include <vindex/organ/purify_methods.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vindex::organ {

struct GateRules {
  double largest_ks = 0.10;          ///< distance to Marchenko-Pastur must be below this
  double energy_cap = 0.05;          ///< most energy that may be removed
  std::int64_t min_short_side = 32;  ///< fewer singular values do not determine a bulk
  bool force = false;                ///< the three above and an empty rank are no obstacle
};

enum class GateVerdict : std::uint8_t {
  kOpen,    ///< every condition holds
  kForced,  ///< some do not hold, and --force said go on
  kShut,
};
std::string_view verdict_name(GateVerdict verdict);  ///< "open", "forced", "shut"

struct GateDecision {
  GateVerdict verdict = GateVerdict::kShut;
  std::string_view word;  ///< the first of them for a table: "no bulk", "no rank", "over cap", ...
  std::string reason;     ///< which conditions do not hold; empty where open
  bool passes() const { return verdict != GateVerdict::kShut; }
};

/// Decides for a matrix of rows x cols with this fit. `energy_removed`: nothing where it is not
/// known yet; a matrix that passes is asked for again with it. A result that would be the zero
/// matrix (energy removed 1) never passes.
GateDecision decide_gate(const GateRules& rules, std::int64_t rows, std::int64_t cols,
                         const NoiseFit& fit, std::optional<double> energy_removed);

}  // namespace vindex::organ
