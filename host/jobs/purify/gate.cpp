// Owns whether a matrix is purified at all: a verdict and its reason from its spectrum.
#include <vindex/jobs/purify/purify_methods.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::purify {

std::string_view verdict_name(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kOpen:
      return "open";
    case GateVerdict::kForced:
      return "forced";
    case GateVerdict::kShut:
      break;
  }
  return "shut";
}

GateDecision decide_gate(const GateRules& rules, std::int64_t rows, std::int64_t cols,
                         const NoiseFit& fit, std::optional<double> energy_removed) {
  std::string reason;
  std::string_view first;
  const auto add = [&](std::string_view word, const std::string& text) {
    first = first.empty() ? word : first;
    reason += (reason.empty() ? "" : "; ") + text;
  };
  const std::int64_t short_side = std::min(rows, cols);
  if (energy_removed && *energy_removed >= 1.0) {
    return {GateVerdict::kShut, "no rank", "nothing would be left of it"};
  }
  if (short_side < rules.min_short_side) {
    add("too small", fmt::format("{} singular values are too few to recognise noise", short_side));
  } else if (!(fit.sigma > 0.0)) {
    add("no noise", "no noise in it: more than half of its singular values are zero");
  } else {
    if (!(fit.ks < rules.largest_ks)) {
      add("no bulk", fmt::format("KS {:.3f} is not below {:.2f}: its bulk is not noise", fit.ks,
                                 rules.largest_ks));
    }
    if (fit.rank_gd == 0) {
      add("no rank", "no singular value stands out of the noise");
    }
  }
  if (energy_removed && *energy_removed > rules.energy_cap) {
    add("over cap", fmt::format("{:.1f} % of its energy would go, the cap is {:g} %",
                                100.0 * *energy_removed, 100.0 * rules.energy_cap));
  }
  if (reason.empty()) {
    return {GateVerdict::kOpen, {}, {}};
  }
  return {rules.force ? GateVerdict::kForced : GateVerdict::kShut, first, reason};
}

}  // namespace vindex::purify
