// Owns the scan of a header for that one member.
#include <vindex/core/json_scanner.hpp>
#include <vindex/write/safetensors_metadata.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>

namespace vindex::write {

SafetensorsMetadata read_safetensors_metadata(shard::ByteSource& source) {
  constexpr std::uint64_t kLengthBytes = 8;
  std::uint64_t length = 0;
  source.read(0, std::as_writable_bytes(std::span(&length, 1)));
  length = std::min(length, source.size() - kLengthBytes);
  const auto text = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(length));
  const std::span characters(text.get(), static_cast<std::size_t>(length));
  source.read(kLengthBytes, std::as_writable_bytes(characters));
  JsonLimits limits;
  limits.depth = 4;
  limits.bytes = static_cast<std::size_t>(length);
  limits.unsigned_integers_only = true;
  JsonScanner scanner(characters, source.name(), limits, kLengthBytes);
  SafetensorsMetadata metadata;
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key != "__metadata__") {
      scanner.skip_value();
      continue;
    }
    scanner.enter_object();
    while (const auto name = scanner.next_key()) {
      std::string first(*name);
      metadata.emplace_back(std::move(first), scanner.string());
    }
  }
  return metadata;
}

}  // namespace vindex::write
