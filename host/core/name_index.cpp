#include <vindex/core/error.hpp>
#include <vindex/core/name_index.hpp>

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

}  // namespace vindex
