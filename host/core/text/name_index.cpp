// Owns the buckets of a NameIndex, how they are filled in place, and sorting of names by eight
// bytes at a time.
#include "name_index.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace vindex {

NameIndex::NameIndex(std::span<const std::string_view> names) : names_(names) {
  expects(names.size() < std::numeric_limits<std::uint32_t>::max(), "fewer than 2^32 names");
  const std::size_t buckets = std::bit_floor(std::max<std::size_t>(names.size() / 2, 1));
  shift_ = 64U - static_cast<unsigned int>(std::countr_zero(buckets));
  std::vector<std::uint64_t> hashes(names.size());
  bounds_.assign(buckets + 1, 0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    hashes[i] = std::hash<std::string_view>()(names[i]);
    ++bounds_[bucket_of(hashes[i])];
  }
  // Sizes become ends, and filling from behind moves the ends to the beginnings.
  std::uint32_t end = 0;
  for (std::uint32_t& bound : bounds_) {
    end += bound;
    bound = end;
  }
  entries_.resize(names.size());
  for (std::size_t i = names.size(); i-- > 0;) {
    entries_[--bounds_[bucket_of(hashes[i])]] = {static_cast<std::uint32_t>(hashes[i]),
                                                 static_cast<std::uint32_t>(i)};
  }
  for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
    if (bounds_[bucket + 1] - bounds_[bucket] > 1) {
      std::sort(entries_.begin() + bounds_[bucket], entries_.begin() + bounds_[bucket + 1],
                [this](const Entry& a, const Entry& b) { return before(a, b); });
    }
  }
}

bool NameIndex::before(const Entry& a, const Entry& b) const {
  if (a.hash != b.hash) {
    return a.hash < b.hash;
  }
  const int order = names_[a.position].compare(names_[b.position]);
  return order != 0 ? order < 0 : a.position < b.position;
}

std::optional<std::pair<std::size_t, std::size_t>> NameIndex::duplicate() const {
  std::optional<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    const Entry& a = entries_[i - 1];
    const Entry& b = entries_[i];
    const bool same = a.hash == b.hash && names_[a.position] == names_[b.position];
    if (same && (!found || b.position < found->second)) {
      found.emplace(a.position, b.position);
    }
  }
  return found;
}

std::optional<std::size_t> NameIndex::find(std::string_view name) const {
  const std::uint64_t hash = std::hash<std::string_view>()(name);
  const auto low = static_cast<std::uint32_t>(hash);
  const std::size_t bucket = bucket_of(hash);
  const auto last = entries_.begin() + bounds_[bucket + 1];
  const auto first = std::lower_bound(entries_.begin() + bounds_[bucket], last, name,
                                      [&](const Entry& entry, std::string_view wanted) {
                                        return entry.hash != low ? entry.hash < low
                                                                 : names_[entry.position] < wanted;
                                      });
  if (first == last || first->hash != low || names_[first->position] != name) {
    return std::nullopt;
  }
  return first->position;
}

std::optional<std::size_t> NameFollower::find(std::string_view name) {
  constexpr std::ptrdiff_t kLargestStride = 64;
  const std::span<const std::string_view> names = index_.names();
  const auto to_front = [&](std::size_t k, Track track) {
    std::copy_backward(tracks_.begin(), tracks_.begin() + static_cast<std::ptrdiff_t>(k),
                       tracks_.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    tracks_[0] = track;
  };
  for (std::size_t k = 0; k < track_count_; ++k) {
    const std::ptrdiff_t guess = tracks_[k].last + tracks_[k].stride;
    if (guess >= 0 && guess < std::ssize(names) && names[static_cast<std::size_t>(guess)] == name) {
      to_front(k, {guess, tracks_[k].stride});
      return static_cast<std::size_t>(guess);
    }
  }
  const auto found = index_.find(name);
  if (!found) {
    return std::nullopt;
  }
  const auto position = static_cast<std::ptrdiff_t>(*found);
  for (std::size_t k = 0; k < track_count_; ++k) {
    const std::ptrdiff_t stride = position - tracks_[k].last;
    if (stride >= -kLargestStride && stride <= kLargestStride) {
      to_front(k, {position, stride});
      return found;
    }
  }
  track_count_ = std::min(track_count_ + 1, kTracks);
  to_front(track_count_ - 1, {position, 1});
  return found;
}

namespace {

constexpr std::size_t kKeyBytes = 8;
/// Up to this many names comparing them whole is cheaper than taking keys.
constexpr std::size_t kFewNames = 16;
/// What names share is looked for so far ahead and no farther: the cost of a turn that separates a
/// single name then stays a small multiple of the bytes it passes over.
constexpr std::size_t kMaxAhead = 64;

struct Item {
  std::uint64_t key;
  std::uint32_t position;
};

class Sorter {
 public:
  explicit Sorter(std::span<const std::string_view> names) : names_(names) {}

  /// Sorts `items`, whose names agree in their first `depth` bytes. No deeper than a name has keys.
  void sort(std::span<Item> items, std::size_t depth) const {  // NOLINT(misc-no-recursion)
    if (items.size() <= kFewNames) {
      sort_whole(items, depth);
      return;
    }
    depth = common_bytes(items, depth);
    for (Item& item : items) {
      item.key = key_of(names_[item.position], depth);
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      return a.key != b.key ? a.key < b.key : a.position < b.position;
    });
    for (std::size_t begin = 0; begin < items.size();) {
      std::size_t end = begin + 1;
      bool ended = names_[items[begin].position].size() < depth + kKeyBytes;
      for (; end < items.size() && items[end].key == items[begin].key; ++end) {
        ended = ended || names_[items[end].position].size() < depth + kKeyBytes;
      }
      const std::span<Item> group = items.subspan(begin, end - begin);
      // Names that end within their key look like names with zeros there.
      if (ended) {
        sort_whole(group, depth);
      } else if (group.size() > 1) {
        sort(group, depth + kKeyBytes);
      }
      begin = end;
    }
  }

 private:
  void sort_whole(std::span<Item> items, std::size_t depth) const {
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      const int order = names_[a.position].substr(depth).compare(names_[b.position].substr(depth));
      return order != 0 ? order < 0 : a.position < b.position;
    });
  }

  std::size_t common_bytes(std::span<const Item> items, std::size_t depth) const {
    std::string_view shared = names_[items.front().position].substr(0, depth + kMaxAhead);
    for (const Item& item : items) {
      const std::string_view name = names_[item.position];
      const auto [end, unused] =
          std::mismatch(shared.begin() + static_cast<std::ptrdiff_t>(depth), shared.end(),
                        name.begin() + static_cast<std::ptrdiff_t>(depth), name.end());
      shared = shared.substr(0, static_cast<std::size_t>(end - shared.begin()));
    }
    return shared.size();
  }

  /// The eight bytes at `depth`, the first counting most, zeros behind the name's end.
  static std::uint64_t key_of(std::string_view name, std::size_t depth) {
    std::uint64_t key = 0;
    for (std::size_t i = 0; i < kKeyBytes; ++i) {
      const std::size_t at = depth + i;
      key = key << 8U | (at < name.size() ? static_cast<unsigned char>(name[at]) : 0U);
    }
    return key;
  }

  std::span<const std::string_view> names_;
};

}  // namespace

std::vector<std::uint32_t> name_order(std::span<const std::string_view> names) {
  expects(names.size() < std::numeric_limits<std::uint32_t>::max(), "fewer than 2^32 names");
  std::vector<Item> items(names.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = {0, static_cast<std::uint32_t>(i)};
  }
  Sorter(names).sort(items, 0);
  std::vector<std::uint32_t> order(items.size());
  std::transform(items.begin(), items.end(), order.begin(),
                 [](const Item& item) { return item.position; });
  return order;
}

}  // namespace vindex
