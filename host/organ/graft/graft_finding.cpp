// Owns the names of levels, and which findings refuse.
#include "graft_finding.hpp"

#include <algorithm>
#include <vector>

namespace vindex::organ {

std::string_view level_name(Level level) {
  constexpr std::string_view kNames[] = {"error", "warn", "note"};
  return kNames[static_cast<std::size_t>(level)];
}

bool is_refused(std::span<const GraftFinding> findings, bool force) {
  return std::any_of(findings.begin(), findings.end(), [force](const GraftFinding& finding) {
    return finding.level == Level::kError && !(force && finding.can_be_forced);
  });
}

}  // namespace vindex::organ
