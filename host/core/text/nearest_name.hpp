// Owns the guess at what a misspelt name was meant to be, and the list of what there is.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {

/// The one of `names` with the fewest edits (a letter more, less or another, two neighbours
/// swapped; upper and lower case and `-` and `_` are equal) from `text`; of equally near ones the
/// first. Empty where even that one takes more than two edits and more than a third of its length.
std::string nearest_name(std::string_view text, std::span<const std::string> names);

/// Up to `most` guesses, the best first: names that contain `text` or that it contains (three
/// characters at least), then those that nearest_name() would accept and that take no more than one
/// edit more than the best of these. Bounded for 200,000 names: far below a second.
std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> names,
                                       std::size_t most);

/// "did you mean a, b or c?", or nothing where there is no guess. Names through printable().
std::string did_you_mean(std::string_view text, std::span<const std::string> names);

/// "a, b, c", names through excerpt(); of more than 24 the first ones and their count:
/// "a, b, ... (30 in all)".
std::string name_list(std::span<const std::string> names);

}  // namespace vindex
