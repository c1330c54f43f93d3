// Owns reading a document, and refusing members that are not known.
#include "json_node.hpp"

#include "core/files/byte_source.hpp"
#include "core/text/nearest_name.hpp"
#include "input/stores/open_store.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vindex::organ {

void JsonNode::require_known(std::span<const std::string_view> known) const {
  for (const auto& [name, node] : members()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string guess =
          did_you_mean(name, std::vector<std::string>(known.begin(), known.end()));
      node.fail(
          fmt::format("is not a member here; {}",
                      guess.empty() ? fmt::format("there are {}", fmt::join(known, ", ")) : guess));
    }
  }
}

std::string read_json_text(const std::string& path, std::uint64_t max_bytes,
                           const JsonDocument& document) {
  const auto source = input::open_input(path);
  if (source->size() > max_bytes) {
    throw FormatError(document.error_id, document.where,
                      fmt::format("{} bytes: no such document is so large", source->size()));
  }
  return whole_text(*source);
}

JsonValue read_json_file(const std::string& path, std::uint64_t max_bytes, std::size_t max_values,
                         const JsonDocument& document) {
  const std::string text = read_json_text(path, max_bytes, document);
  JsonLimits limits;
  limits.bytes = static_cast<std::size_t>(max_bytes);
  limits.values = max_values;
  limits.kept_values = max_values;
  return parse_json(text, document.where, limits);
}

}  // namespace vindex::organ
