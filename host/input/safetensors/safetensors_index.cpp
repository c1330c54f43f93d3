// Owns parsing an index, with names of files stored once.
#include "safetensors_index.hpp"

#include "core/json/json_scanner.hpp"
#include "input/local/file_kind.hpp"
#include "input/model_folder.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace vindex::input {

namespace {
constexpr std::size_t kLargestIndex = 100'000'000;
constexpr std::size_t kMaxIndexTensors = 1'000'000;
constexpr std::size_t kMaxIndexName = 65'536;
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

/// Numbers the files of a weight map in the order of their first occurrence. Neighbours mostly lie
/// in the same file.
class FileNumbers {
 public:
  explicit FileNumbers(const JsonScanner& scanner) : scanner_(scanner) {}

  std::uint32_t number_of(std::string_view file) {
    if (numbers_.empty() || file != last_->first) {
      const auto [at, is_new] =
          numbers_.try_emplace(file, static_cast<std::uint32_t>(numbers_.size()));
      if (is_new && !is_plain_name(file)) {
        scanner_.fail("E-INDEX-PATH",
                      fmt::format("\"{}\" is not a plain file name: shards lie in the index's own "
                                  "folder",
                                  excerpt(file)));
      }
      last_ = at;
    }
    return last_->second;
  }

  /// Fills `index.files` in their order and turns the numbers of `index.file_of` into places there.
  void sort_into(SafetensorsIndex& index) const {
    std::vector<std::uint32_t> places(numbers_.size());
    for (const auto& [file, number] : numbers_) {
      places[number] = static_cast<std::uint32_t>(index.files.size());
      index.files.push_back(file);
    }
    for (std::uint32_t& file : index.file_of) {
      file = places[file];
    }
  }

 private:
  const JsonScanner& scanner_;
  std::map<std::string_view, std::uint32_t> numbers_;
  std::map<std::string_view, std::uint32_t>::const_iterator last_;
};

void read_weight_map(JsonScanner& scanner, std::size_t text_bytes, SafetensorsIndex& index) {
  const std::size_t expected = std::min(kMaxIndexTensors, text_bytes / kShortestMapping);
  index.tensors.reserve(expected);
  index.file_of.reserve(expected);
  FileNumbers numbers(scanner);
  scanner.enter_object();
  while (const auto tensor = scanner.next_key()) {
    if (index.tensors.size() == kMaxIndexTensors || tensor->size() > kMaxIndexName) {
      scanner.fail("E-INDEX-LIMIT", fmt::format("more than {} tensors, or a name of more than {} "
                                                "bytes",
                                                kMaxIndexTensors, kMaxIndexName));
    }
    if (scanner.peek() != JsonKind::kString) {
      scanner.fail("E-INDEX-FIELD", "weight_map must map tensor names to file names");
    }
    const std::uint32_t file = numbers.number_of(scanner.string());
    index.tensors.push_back(*tensor);
    index.file_of.push_back(file);
  }
  numbers.sort_into(index);
}
}  // namespace

SafetensorsIndex read_safetensors_index(ByteSource& source) {
  refuse_other_than_json(source);
  if (source.size() > kLargestIndex) {
    throw FormatError("E-JSON-SIZE", source.name(),
                      fmt::format("more than {} bytes of JSON", kLargestIndex));
  }
  SafetensorsIndex index;
  const auto bytes = static_cast<std::size_t>(source.size());
  index.text = std::make_unique_for_overwrite<char[]>(bytes);
  const std::span text(index.text.get(), bytes);
  source.read(0, std::as_writable_bytes(text));
  JsonLimits limits;
  limits.depth = 4;
  limits.bytes = kLargestIndex;
  limits.values = std::numeric_limits<std::size_t>::max();
  limits.unsigned_integers_only = true;
  JsonScanner scanner(text, source.name(), limits);
  bool has_map = false;
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    if (*key == "weight_map") {
      has_map = true;
      read_weight_map(scanner, bytes, index);
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

}  // namespace vindex::input
