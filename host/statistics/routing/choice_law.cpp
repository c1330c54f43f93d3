// Owns the chances of pairs of experts under a law of choices.
#include "choice_law.hpp"

#include "core/constants.hpp"

#include <limits>

namespace vindex::statistics {

double ChoiceLaw::same_group() const {
  double pairs = 0.0;
  for (const ChoicePattern& pattern : patterns) {
    for (const std::uint32_t part : pattern.parts) {
      pairs += pattern.chance * part * (part - 1.0);
    }
  }
  const auto size = static_cast<double>(group_size());
  return size > 1.0 ? pairs / (static_cast<double>(experts) * (size - 1.0)) : kNaN;
}

double ChoiceLaw::other() const {
  if (!is_grouped()) {
    return experts > 1 ? same_group() : 0.0;
  }
  double pairs = 0.0;
  for (const ChoicePattern& pattern : patterns) {
    double left = static_cast<double>(top_k) * (static_cast<double>(top_k) - 1.0);
    for (const std::uint32_t part : pattern.parts) {
      left -= part * (part - 1.0);
    }
    pairs += pattern.chance * left;
  }
  const auto e = static_cast<double>(experts);
  return pairs / (e * (e - static_cast<double>(group_size())));
}

}  // namespace vindex::statistics
