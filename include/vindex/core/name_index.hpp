// Owns finding names in large untrusted lists: duplicates and look-ups among up to a million names
// in bounded time and 16 bytes each. Sorted by (hash, name) and not a hash table, so that names
// made to collide cost a comparison more and never a quadratic walk.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex {

/// An index over `names`, which must outlive it. Positions are those in `names`.
class NameIndex {
 public:
  explicit NameIndex(std::span<const std::string_view> names);

  /// Positions (first, later) of a name that occurs twice; where several do, the one whose later
  /// position is smallest.
  std::optional<std::pair<std::size_t, std::size_t>> duplicate() const;

  /// Position of `name`: the smallest, where it occurs more than once.
  std::optional<std::size_t> find(std::string_view name) const;

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint64_t position;
  };
  bool before(const Entry& a, const Entry& b) const;

  std::span<const std::string_view> names_;
  std::vector<Entry> entries_;
};

}  // namespace vindex
