// Owns finding and ordering names in large untrusted lists. The index finds duplicates and looks up
// among up to a million names in bounded time and some 10 bytes each (18 while it is made). Names
// lie in buckets of a few by their hash's highest bits, sorted by (hash, name) within: a look-up
// touches a cache line or two, and names made to collide cost a binary search and never a quadratic
// walk. Sorting is of names that have long beginnings in common, as a model's tensors do: eight
// bytes at a time behind what they share, so that most comparisons are of two numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex {

/// An index over `names`, fewer than 2^32, which must outlive it. Positions are those in `names`.
class NameIndex {
 public:
  explicit NameIndex(std::span<const std::string_view> names);

  /// Positions (first, later) of a name that occurs twice; where several do, the one whose later
  /// position is smallest.
  std::optional<std::pair<std::size_t, std::size_t>> duplicate() const;

  /// Position of `name`: the smallest, where it occurs more than once.
  std::optional<std::size_t> find(std::string_view name) const;

  std::span<const std::string_view> names() const { return names_; }

 private:
  struct Entry {
    std::uint32_t hash;  ///< its lowest bits; the highest chose the bucket
    std::uint32_t position;
  };
  std::size_t bucket_of(std::uint64_t hash) const {
    return shift_ >= 64 ? 0 : static_cast<std::size_t>(hash >> shift_);
  }
  bool before(const Entry& a, const Entry& b) const;

  std::span<const std::string_view> names_;
  unsigned int shift_ = 64;
  std::vector<std::uint32_t> bounds_;  ///< of the buckets in `entries_`: one more than buckets
  std::vector<Entry> entries_;
};

/// Finds names that are asked for in an order related to the index's own, as two listings of one
/// model's tensors are: where the last few were found, and how far apart, says where the next one
/// lies. A guess is checked and costs a comparison; a look-up in a large index waits for memory
/// three or four times.
class NameFollower {
 public:
  /// `index` must outlive it.
  explicit NameFollower(const NameIndex& index) : index_(index) {}
  /// As NameIndex::find() where no name occurs twice; else the position of any that is equal.
  std::optional<std::size_t> find(std::string_view name);

 private:
  /// Positions of names that were asked for in turn with others, evenly spaced.
  struct Track {
    std::ptrdiff_t last = 0;
    std::ptrdiff_t stride = 0;
  };
  static constexpr std::size_t kTracks = 4;

  const NameIndex& index_;
  std::array<Track, kTracks> tracks_{};  ///< the one that was right last comes first
  std::size_t track_count_ = 0;
};

/// Positions of `names` (fewer than 2^32) in bytewise order, equal ones in the order given.
std::vector<std::uint32_t> name_order(std::span<const std::string_view> names);

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
