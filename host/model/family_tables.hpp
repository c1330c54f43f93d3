// Owns the two tables behind families.hpp: architectures, and name patterns. Pure data.
//
// Patterns: `{layer}` stands for `layers.N`, `blk.N`, `blocks.N` or `h.N`; `{expert}` and `#` for a
// number; `(a|b)` for either; a final `.*` for any rest (tried after every exact row). Wrappers
// (`model.`, `language_model.`) and `.weight` are not written.
#pragma once

#include "families.hpp"

#include <span>
#include <string_view>

namespace vindex::model {

struct NameRow {
  std::string_view pattern;
  Block block;
  std::string_view role;  ///< empty: the last part of the name
  Layout layout = Layout::kMatrix;
  std::string_view convention{};  ///< empty: every family
};

struct FamilyRow {
  std::string_view architecture;
  std::string_view convention;  ///< empty: the shared rows say everything
};

std::span<const NameRow> name_rows(Dialect dialect);
std::span<const FamilyRow> family_rows(Dialect dialect);

}  // namespace vindex::model
