// Owns the table of companions: which suffix beside which codes is what. One row adds one.
#pragma once

#include "schemes.hpp"

#include <vindex/shard/model_files.hpp>

#include <span>
#include <string_view>

namespace vindex::model {

/// How sure a suffix is: a strong one is a companion even where its codes are absent; a weak one
/// only beside codes of a packed or 8-bit type.
enum class Strength : std::uint8_t { kStrong, kWeak };

/// A tensor `base + suffix` belongs to codes `base + codes`.
struct CompanionRow {
  std::string_view suffix;
  std::string_view codes;
  Part part = Part::kUnused;
  Hint hint = Hint::kNone;
  Strength strength = Strength::kStrong;
};

/// The rows of a container, in order of precedence.
std::span<const CompanionRow> companion_rows(shard::ContainerFormat format);

}  // namespace vindex::model
