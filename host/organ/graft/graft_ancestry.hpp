// Owns whether two models descend from one, by the similarity of their weights.
#pragma once

#include "graft_finding.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::organ {

/// The similarity of a tensor of the donor and the host's of the same name.
struct Likeness {
  std::string tensor;
  std::optional<double> cosine = {};  ///< nothing where weights are zero, not finite or not decoded
  std::uint64_t values = 0, of = 0;   ///< weights compared, weights there are
};

/// Cosines below these are a warning and an error. Unrelated matrices have 0 with a standard
/// deviation of 1 / sqrt(values), fine-tunes of one model more than .9.
inline constexpr double kUnlikeCosine = 0.5;
inline constexpr double kUnrelatedCosine = 0.05;

/// Weights of a tensor that the ancestry check decodes at most.
inline constexpr std::uint64_t kAncestryValues = std::uint64_t{1} << 20U;

/// Findings of the weights: at most one of each level, naming the tensors of lowest similarity.
std::vector<GraftFinding> check_ancestry(std::span<const Likeness> likeness);

}  // namespace vindex::organ
