// Owns the choice of a k by the size of a matrix, and of one k for several matrices.
#include "var_at_k.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::statistics {

std::optional<std::int32_t> informative_k(std::int64_t shorter,
                                          const std::array<double, kVarAtK.size()>& nulls) {
  if (shorter < 2 || std::isnan(nulls.front())) {
    return std::nullopt;
  }
  std::int32_t best = kVarAtK.front();
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    if (kVarAtK[i] < shorter && kVarAtK[i] <= kMaxInformativeK && nulls[i] <= kMaxNoiseShare) {
      best = std::max(best, kVarAtK[i]);
    }
  }
  return best;
}

std::optional<std::int32_t> common_k(std::span<const std::optional<std::int32_t>> each) {
  constexpr std::int32_t kFurthest = 4;
  std::optional<std::int32_t> least;
  std::int32_t most = 0;
  for (const std::optional<std::int32_t>& k : each) {
    if (k) {
      least = std::min(least.value_or(*k), *k);
      most = std::max(most, *k);
    }
  }
  return least && most <= kFurthest * *least ? least : std::nullopt;
}

}  // namespace vindex::statistics
