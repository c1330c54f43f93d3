// Owns the table of the keys that decide whether a donor's weights can work in a host's graph.
#pragma once

#include "graft_finding.hpp"

#include <string_view>

namespace vindex::organ {

/// What keys that begin with the architecture's name decide.
struct KeyRule {
  std::string_view id;
  Level skeleton, others;  ///< by whether attention is taken
  std::string_view advice;
  /// Of the keys behind "ARCHITECTURE.", with spaces between; prefixes where they end with . or _.
  std::string_view suffixes;
};

/// The rule of the key behind "ARCHITECTURE.", or null.
const KeyRule* key_rule(std::string_view suffix);

}  // namespace vindex::organ
