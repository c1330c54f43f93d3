// Owns what the checks of a graft find.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vindex::organ {

enum class Level : std::uint8_t { kError, kWarning, kNote };
/// "error", "warn", "note".
std::string_view level_name(Level level);

struct GraftFinding {
  std::string id;  ///< "architecture", "heads", "rope", "tokenizer", "ancestry", ...
  Level level = Level::kNote;
  std::string what;
  std::string host = {}, donor = {};  ///< both values, where there are such
  std::string advice = {};
  bool can_be_forced = true;  ///< errors of structure stay errors
};

/// Whether what was found keeps a graft from being written.
bool is_refused(std::span<const GraftFinding> findings, bool force);

}  // namespace vindex::organ
