// Owns sorting names bytewise that have long beginnings in common, as a model's tensors do: eight
// bytes at a time behind what they share, so that most comparisons are of two numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vindex {

/// Positions of `names` (fewer than 2^32) in bytewise order, equal ones in the order given.
std::vector<std::uint32_t> name_order(std::span<const std::string_view> names);

}  // namespace vindex
