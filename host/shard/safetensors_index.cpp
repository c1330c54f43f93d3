#include "safetensors_index.hpp"

#include "file_kind.hpp"
#include "model_folder.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>
#include <vindex/core/json_scanner.hpp>

#include <fmt/format.h>

#include <limits>

namespace vindex::shard {

namespace {
constexpr std::size_t kLargestIndex = 100'000'000;
constexpr std::size_t kMostTensors = 1'000'000;
constexpr std::size_t kLongestName = 65'536;
/// `"":"a",` is the shortest mapping.
constexpr std::size_t kShortestMapping = 7;

void read_metadata(JsonScanner& scanner, SafetensorsIndex& index) {
  if (scanner.peek() != JsonKind::kObject) {
    return scanner.skip_value();
  }
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key == "total_size" && scanner.peek() == JsonKind::kNumber) {
      index.total_size = scanner.unsigned_integer();
    } else {
      scanner.skip_value();
    }
  }
}

void read_weight_map(JsonScanner& scanner, SafetensorsIndex& index) {
  const std::size_t expected = std::min(kMostTensors, index.text.size() / kShortestMapping);
  index.tensors.reserve(expected);
  index.files.reserve(expected);
  scanner.enter_object();
  while (const auto tensor = scanner.next_key()) {
    if (index.tensors.size() == kMostTensors || tensor->size() > kLongestName) {
      scanner.fail("E-INDEX-LIMIT", fmt::format("more than {} tensors, or a name of more than {} "
                                                "bytes",
                                                kMostTensors, kLongestName));
    }
    if (scanner.peek() != JsonKind::kString) {
      scanner.fail("E-INDEX-FIELD", "weight_map must map tensor names to file names");
    }
    const std::string_view file = scanner.string();
    if (!is_plain_name(file)) {
      scanner.fail("E-INDEX-PATH",
                   fmt::format("\"{}\" is no plain file name: shards lie in the index's own folder",
                               excerpt(file)));
    }
    index.tensors.push_back(*tensor);
    index.files.push_back(file);
  }
}
}  // namespace

SafetensorsIndex read_safetensors_index(ByteSource& source) {
  refuse_other_than_json(source);
  if (source.size() > kLargestIndex) {
    throw FormatError("E-JSON-SIZE", source.name(),
                      fmt::format("more than {} bytes of JSON", kLargestIndex));
  }
  SafetensorsIndex index;
  index.text.resize(static_cast<std::size_t>(source.size()));
  source.read(0, std::as_writable_bytes(std::span(index.text)));
  JsonLimits limits;
  limits.depth = 4;
  limits.bytes = kLargestIndex;
  limits.values = std::numeric_limits<std::size_t>::max();
  limits.unsigned_integers_only = true;
  JsonScanner scanner(index.text, source.name(), limits);
  bool has_map = false;
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key == "weight_map") {
      has_map = true;
      read_weight_map(scanner, index);
    } else if (*key == "metadata") {
      read_metadata(scanner, index);
    } else {
      scanner.skip_value();
    }
  }
  scanner.finish();
  if (!has_map || index.tensors.empty()) {
    throw FormatError("E-INDEX-FIELD", source.name(),
                      has_map ? "weight_map is empty" : "no weight_map: not an index of shards");
  }
  return index;
}

}  // namespace vindex::shard
