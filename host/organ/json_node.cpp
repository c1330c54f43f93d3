#include "json_node.hpp"

#include <vindex/shard/byte_source.hpp>

namespace vindex::organ {

JsonValue read_json_file(const std::string& path, std::uint64_t most_bytes, std::size_t most_values,
                         const JsonDocument& document) {
  const auto source = shard::open_file_source(path);
  if (source->size() > most_bytes) {
    throw FormatError(document.error_id, document.where,
                      fmt::format("{} bytes: no such document is so large", source->size()));
  }
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  JsonLimits limits;
  limits.bytes = static_cast<std::size_t>(most_bytes);
  limits.values = most_values;
  limits.kept_values = most_values;
  return parse_json(text, document.where, limits);
}

}  // namespace vindex::organ
