#include <vindex/core/error.hpp>
#include <vindex/core/name_order.hpp>

#include <algorithm>
#include <limits>

namespace vindex {

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
