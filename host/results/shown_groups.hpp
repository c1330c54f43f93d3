// Owns which of the shown matrices belong together.
#pragma once

#include <vindex/results/show.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace vindex::results {

/// Positions of the matrices of every (layer, block, role), groups in the order in which each first
/// appears.
using GroupMembers = std::vector<std::vector<std::size_t>>;
GroupMembers members_of(std::span<const ShownMatrix> matrices);

}  // namespace vindex::results
