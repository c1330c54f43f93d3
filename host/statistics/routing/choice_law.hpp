// Owns which experts a token gets where none is preferred, and what a null says of a statistic.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::statistics {

/// How many experts a token takes of each group that it takes any of, the most first.
struct ChoicePattern {
  std::vector<std::uint32_t> parts;
  double chance = 0.0;
  bool operator==(const ChoicePattern&) const = default;
};

/// Which experts a token gets where none is preferred. Groups are exchangeable, and so are the
/// experts of a group, so the chances of patterns say all of it. Without groups: one group, one
/// pattern.
struct ChoiceLaw {
  std::int64_t experts = 1, top_k = 1, groups = 1;
  std::vector<ChoicePattern> patterns;
  std::int64_t group_size() const { return experts / groups; }
  bool is_grouped() const { return groups > 1; }
  /// Chance of one expert.
  double share() const { return static_cast<double>(top_k) / static_cast<double>(experts); }
  /// Chance that a token gets both of two experts of one group; NaN in groups of one.
  double same_group() const;
  /// Of two experts of different groups; of any two without groups.
  double other() const;
  bool operator==(const ChoiceLaw&) const = default;
};

/// Mean and standard deviation of a statistic under its null.
struct DrawnNull {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();
};

inline constexpr std::int32_t kRoutingDraws = 1000;

/// Lifts of pairs that are expected less often than this have a Poisson tail instead of a
/// deviation.
inline constexpr double kFewExpected = 5.0;

}  // namespace vindex::statistics
