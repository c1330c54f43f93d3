// Owns the distance between two names (Damerau's, with edits of characters and swaps of
// neighbours), a cheap lower bound of it, and how many edits still pass for a slip.
#include "nearest_name.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
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

/// Edits without the order of characters: never more than edits(). Cheap enough to keep most names
/// from being compared in full.
std::size_t min_edits(std::string_view a, std::string_view b) {
  std::array<int, 256> surplus{};
  for (const char c : a) {
    ++surplus[static_cast<unsigned char>(folded(c))];
  }
  for (const char c : b) {
    --surplus[static_cast<unsigned char>(folded(c))];
  }
  std::size_t more = 0;
  std::size_t less = 0;
  for (const int count : surplus) {
    (count > 0 ? more : less) += static_cast<std::size_t>(std::abs(count));
  }
  return std::max(more, less);
}

std::size_t max_edits(std::string_view name) { return std::max<std::size_t>(2, name.size() / 3); }

std::string folded_text(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), folded);
  return out;
}

/// The best guesses so far, best first; of equal ones the earlier.
class Guesses {
 public:
  explicit Guesses(std::size_t most) : most_(most) {}
  /// A guess with this many edits or more is none of the best.
  std::size_t bound() const { return guesses_.size() < most_ ? kLongest : guesses_.back().edits; }
  void add(const std::string& name, std::size_t edits) {
    if (edits >= bound()) {
      return;
    }
    const auto place =
        std::upper_bound(guesses_.begin(), guesses_.end(), edits,
                         [](std::size_t count, const Guess& guess) { return count < guess.edits; });
    guesses_.insert(place, {&name, edits});
    if (guesses_.size() > most_) {
      guesses_.pop_back();
    }
  }
  struct Guess {
    const std::string* name;
    std::size_t edits;
  };
  const std::vector<Guess>& all() const { return guesses_; }

 private:
  std::size_t most_;
  std::vector<Guess> guesses_;
};

}  // namespace

std::string nearest_name(std::string_view text, std::span<const std::string> names) {
  if (text.empty() || text.size() > kLongest) {
    return {};
  }
  Guesses best(1);
  for (const std::string& name : names) {
    if (name.size() > kLongest) {
      continue;
    }
    if (const std::size_t count = edits(text, name); count <= max_edits(name)) {
      best.add(name, count);
    }
  }
  return best.all().empty() ? std::string() : *best.all().front().name;
}

std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> names,
                                       std::size_t most) {
  constexpr std::size_t kMinPart = 3;
  std::vector<std::string> best;
  if (text.empty() || text.size() > kLongest || most == 0) {
    return best;
  }
  const std::string wanted = folded_text(text);
  Guesses parts(most);
  Guesses near(most);
  for (const std::string& name : names) {
    if (name.empty() || name.size() > kLongest) {
      continue;
    }
    const auto [shorter, longer] = std::minmax({wanted.size(), name.size()});
    const std::string folded_name = folded_text(name);
    if (shorter >= kMinPart && (folded_name.find(wanted) != std::string::npos ||
                                wanted.find(folded_name) != std::string::npos)) {
      parts.add(name, longer - shorter);
      continue;
    }
    const std::size_t limit = std::min(max_edits(name) + 1, near.bound());
    if (longer - shorter < limit && min_edits(wanted, name) < limit) {
      const std::size_t count = edits(wanted, name);
      if (count < limit) {
        near.add(name, count);
      }
    }
  }
  for (const Guesses* guesses : {&parts, &near}) {
    for (const Guesses::Guess& guess : guesses->all()) {
      const bool is_near = guesses == &parts || guess.edits <= near.all().front().edits + 1;
      if (best.size() < most && is_near) {
        best.push_back(*guess.name);
      }
    }
  }
  return best;
}

std::string did_you_mean(std::string_view text, std::span<const std::string> names) {
  const std::vector<std::string> guesses = nearest_names(text, names, 3);
  std::string out;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    out += (i == 0 ? "did you mean " : (i + 1 == guesses.size() ? " or " : ", ")) +
           printable(guesses[i]);
  }
  return out.empty() ? out : out + "?";
}

std::string name_list(std::span<const std::string> names) {
  constexpr std::size_t kMax = 24;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMax); ++i) {
    text += (i == 0 ? "" : ", ") + excerpt(names[i]);
  }
  return names.size() > kMax ? text + ", ... (" + std::to_string(names.size()) + " in all)" : text;
}

}  // namespace vindex
