#include <vindex/core/nearest_name.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vindex {

namespace {

/// No name that is looked for is longer; what a user types may be.
constexpr std::size_t kLongest = 256;

char folded(char c) {
  if (c >= 'A' && c <= 'Z') {
    return static_cast<char>(c - 'A' + 'a');
  }
  return c == '-' ? '_' : c;
}

/// Edits between `a` and `b`: Damerau's distance without edits inside a swapped pair.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0U : 1U)});
      if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
          folded(a[i - 2]) == folded(b[j - 1])) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view text, std::span<const std::string> names) {
  std::string best;
  std::size_t least = kLongest;
  if (text.empty() || text.size() > kLongest) {
    return best;
  }
  for (const std::string& name : names) {
    if (name.size() > kLongest) {
      continue;
    }
    const std::size_t count = edits(text, name);
    if (count < least && count <= std::max<std::size_t>(2, name.size() / 3)) {
      least = count;
      best = name;
    }
  }
  return best;
}

}  // namespace vindex
