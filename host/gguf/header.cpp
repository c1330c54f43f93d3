// Owns finding keys in a parsed header, and what the shapes of its tensors allow.
#include "header.hpp"

#include "core/integers.hpp"

#include <algorithm>

namespace vindex::gguf {

const Key* find_key(const std::vector<Key>& keys, std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [name](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

const std::string* find_text(const std::vector<Key>& keys, std::string_view name) {
  const Key* key = find_key(keys, name);
  return key == nullptr ? nullptr : std::get_if<std::string>(&key->value);
}

std::optional<std::uint64_t> weight_count(std::span<const std::uint64_t> dimensions) {
  const auto weights = checked_product(dimensions);
  const bool each_fits =
      std::all_of(dimensions.begin(), dimensions.end(),
                  [](std::uint64_t dimension) { return checked_count(dimension).has_value(); });
  return weights && checked_count(*weights) && each_fits ? weights : std::nullopt;
}

bool fills_blocks(decode::ElementType type, std::span<const std::uint64_t> dimensions) {
  const std::uint64_t first = dimensions.empty() ? 1 : dimensions.front();
  return first % static_cast<std::uint64_t>(decode::element_type_row(type).block_elements) == 0;
}

}  // namespace vindex::gguf
