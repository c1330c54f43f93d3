#include <vindex/core/name_index.hpp>

#include <algorithm>
#include <functional>

namespace vindex {

NameIndex::NameIndex(std::span<const std::string_view> names) : names_(names) {
  entries_.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    entries_.push_back({std::hash<std::string_view>()(names[i]), i});
  }
  std::sort(entries_.begin(), entries_.end(),
            [this](const Entry& a, const Entry& b) { return before(a, b); });
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
  const auto first = std::lower_bound(
      entries_.begin(), entries_.end(), name, [&](const Entry& entry, std::string_view wanted) {
        return entry.hash != hash ? entry.hash < hash : names_[entry.position] < wanted;
      });
  if (first == entries_.end() || first->hash != hash || names_[first->position] != name) {
    return std::nullopt;
  }
  return first->position;
}

}  // namespace vindex
