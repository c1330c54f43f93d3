// Owns putting large records into an order that was found on small keys.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace vindex {

/// Moves begin[order[i]] to begin[i] for every i, each record about once and in place. `order` is a
/// permutation and is used up.
template <typename Iterator, typename Index>
void reorder(Iterator begin, std::vector<Index> order) {
  for (std::size_t start = 0; start < order.size(); ++start) {
    if (static_cast<std::size_t>(order[start]) == start) {
      continue;
    }
    const auto at = [&](std::size_t i) -> decltype(auto) {
      return begin[static_cast<std::ptrdiff_t>(i)];
    };
    auto first = std::move(at(start));
    std::size_t to = start;
    for (;;) {
      const auto from = static_cast<std::size_t>(std::exchange(order[to], static_cast<Index>(to)));
      if (from == start) {
        break;
      }
      at(to) = std::move(at(from));
      to = from;
    }
    at(to) = std::move(first);
  }
}

}  // namespace vindex
