// Owns the table of the keys that decide whether a donor's weights can work in a host's graph.
#pragma once

#include "graft.hpp"

#include <string_view>

namespace vindex::organ {

/// What a key that begins with the architecture's name decides.
struct KeyRule {
  std::string_view suffix;  ///< of the key behind "ARCHITECTURE."; a prefix where it ends with '.'
  std::string_view id;
  Level skeleton, others;  ///< by whether attention is taken
  std::string_view advice;
};

/// The rule of the key behind "ARCHITECTURE.", or null.
const KeyRule* key_rule(std::string_view suffix);

}  // namespace vindex::organ
