// Owns the guess at what a misspelt name was meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace vindex {

/// The one of `names` with the fewest edits (a letter more, less or another, two neighbours
/// swapped; upper and lower case and `-` and `_` are equal) from `text`; of equally near ones the
/// first. Empty where even that one takes more than two edits and more than a third of its length.
std::string nearest_name(std::string_view text, std::span<const std::string> names);

}  // namespace vindex
