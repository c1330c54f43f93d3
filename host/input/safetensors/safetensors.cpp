// Owns parsing the header in place, and checking ranges against the file.
#include "safetensors.hpp"

#include "core/digest.hpp"
#include "core/integers.hpp"
#include "core/json/json_scanner.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

namespace vindex::input {

namespace {
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
constexpr std::size_t kMaxSafetensors = 1'000'000;
constexpr std::size_t kMaxMetadata = 1'000'000;
constexpr std::size_t kMaxSafetensorsName = 65'536;
/// The format sets no limit; torch, which writes these files, has this one.
constexpr std::size_t kMaxSafetensorsRank = 64;
/// `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}` is the shortest entry.
constexpr std::uint64_t kShortestEntry = 48;

/// A tensor during validation: positions in the header text instead of copies.
struct Entry {
  std::uint32_t name_position = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t shape_position = 0;
  std::uint8_t rank = 0;
  decode::ElementType type = decode::ElementType::kF32;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderParser {
 public:
  HeaderParser(ByteSource& source, std::span<char> text, std::uint64_t data_bytes)
      : text_(text),
        data_bytes_(data_bytes),
        scanner_(text, source.name(), limits(), kLengthBytes) {}

  std::vector<Entry> parse() {
    entries_.reserve(std::min<std::size_t>(kMaxSafetensors, text_.size() / kShortestEntry + 1));
    scanner_.enter_object();
    while (const auto name = scanner_.next_key()) {
      if (*name == "__metadata__") {
        read_metadata();
      } else {
        read_entry(*name);
      }
    }
    scanner_.finish(true);
    check_tiling();
    return std::move(entries_);
  }

 private:
  static JsonLimits limits() {
    JsonLimits limits;
    limits.depth = 4;
    limits.bytes = kMaxSafetensorsHeader;
    limits.values = std::numeric_limits<std::size_t>::max();  // nothing is kept of a value
    limits.unsigned_integers_only = true;
    return limits;
  }

  std::string_view name_of(const Entry& entry) const {
    return {text_.data() + entry.name_position, entry.name_bytes};
  }

  [[noreturn]] void fail(const Entry& entry, const char* id, const std::string& message) const {
    const std::string_view name = name_of(entry);
    scanner_.fail_at(
        kLengthBytes + entry.name_position, id,
        fmt::format("tensor \"{}\": {}", printable(std::string(name.substr(0, 200))), message));
  }

  void read_metadata() {
    std::size_t count = 0;
    scanner_.enter_object();
    while (scanner_.next_key()) {
      if (++count > kMaxMetadata) {
        scanner_.fail("E-ST-LIMIT", fmt::format("more than {} metadata keys", kMaxMetadata));
      }
      if (scanner_.peek() != JsonKind::kString) {
        scanner_.fail("E-ST-METADATA", "__metadata__ may hold strings only");
      }
      scanner_.string();
    }
  }

  void read_entry(std::string_view name) {
    if (entries_.size() == kMaxSafetensors) {
      scanner_.fail("E-ST-LIMIT", fmt::format("more than {} tensors", kMaxSafetensors));
    }
    if (name.empty()) {
      scanner_.fail("E-ST-NAME", "a tensor with an empty name");
    }
    if (name.size() > kMaxSafetensorsName) {
      scanner_.fail("E-ST-LIMIT", fmt::format("a tensor name of {} bytes, more than {}",
                                              name.size(), kMaxSafetensorsName));
    }
    Entry entry;
    entry.name_position = static_cast<std::uint32_t>(name.data() - text_.data());
    entry.name_bytes = static_cast<std::uint32_t>(name.size());
    std::optional<std::uint64_t> elements;
    bool has_type = false;
    bool has_offsets = false;
    scanner_.enter_object();
    while (const auto field = scanner_.next_key()) {
      if (*field == "dtype") {
        entry.type = read_type(entry);
        has_type = true;
      } else if (*field == "shape") {
        elements = read_shape(entry);
      } else if (*field == "data_offsets") {
        read_offsets(entry);
        has_offsets = true;
      } else {
        fail(entry, "E-ST-FIELD",
             fmt::format("unknown field \"{}\"", printable(std::string(field->substr(0, 200)))));
      }
    }
    if (!has_type || !elements || !has_offsets) {
      fail(entry, "E-ST-FIELD", "needs all of dtype, shape and data_offsets");
    }
    check_size(entry, *elements);
    entries_.push_back(entry);
  }

  decode::ElementType read_type(const Entry& entry) {
    const std::string_view dtype = scanner_.string();
    const auto type = decode::element_type_of_safetensors(dtype);
    if (!type) {
      fail(entry, "E-ST-DTYPE",
           fmt::format("unknown dtype \"{}\"", printable(std::string(dtype.substr(0, 80)))));
    }
    return *type;
  }

  std::uint64_t read_shape(Entry& entry) {
    scanner_.enter_array();
    entry.shape_position = static_cast<std::uint32_t>(scanner_.token_offset() - kLengthBytes);
    std::uint64_t product = 1;
    bool empty = false;
    std::size_t rank = 0;
    while (scanner_.next_element()) {
      const std::uint64_t dimension = scanner_.unsigned_integer();
      if (++rank > kMaxSafetensorsRank) {
        fail(entry, "E-ST-SHAPE", fmt::format("more than {} dimensions", kMaxSafetensorsRank));
      }
      // A zero among the dimensions must not hide that the others overflow.
      const auto next = checked_multiply(product, std::max<std::uint64_t>(dimension, 1));
      if (!checked_count(dimension) || !next || !checked_count(*next)) {
        fail(entry, "E-ST-SHAPE", "the product of the dimensions exceeds 2^63-1");
      }
      product = *next;
      empty = empty || dimension == 0;
    }
    entry.rank = static_cast<std::uint8_t>(rank);
    return empty ? 0 : product;
  }

  void read_offsets(Entry& entry) {
    scanner_.enter_array();
    std::size_t count = 0;
    while (scanner_.next_element()) {
      const std::uint64_t value = scanner_.unsigned_integer();
      (count == 0 ? entry.begin : entry.end) = value;
      if (++count > 2) {
        break;
      }
    }
    if (count != 2) {
      fail(entry, "E-ST-OFFSETS", "data_offsets must be two numbers");
    }
    if (entry.begin > entry.end || entry.end > data_bytes_) {
      fail(entry, "E-ST-OFFSETS",
           fmt::format("data_offsets [{}, {}) do not lie within the {} bytes of data: the file is "
                       "cut short or wrong",
                       entry.begin, entry.end, data_bytes_));
    }
  }

  void check_size(const Entry& entry, std::uint64_t elements) const {
    const auto bytes = decode::stored_bytes(entry.type, elements);
    if (!bytes) {
      fail(entry, "E-ST-SHAPE",
           fmt::format("{} elements of {} do not fill whole bytes, or overflow", elements,
                       decode::element_type_row(entry.type).safetensors));
    }
    if (*bytes != entry.end - entry.begin) {
      fail(entry, "E-ST-SIZE",
           fmt::format("shape and dtype make {} bytes, data_offsets {}", *bytes,
                       entry.end - entry.begin));
    }
  }

  void check_tiling() {
    const auto is_before = [](const Entry& a, const Entry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    };
    if (!std::is_sorted(entries_.begin(), entries_.end(), is_before)) {
      std::stable_sort(entries_.begin(), entries_.end(), is_before);
    }
    std::uint64_t covered = 0;
    for (const Entry& entry : entries_) {
      if (entry.begin != covered) {
        fail(entry, "E-ST-TILING",
             fmt::format("starts at data byte {}, but the tensors before it end at {} ({})",
                         entry.begin, covered, entry.begin < covered ? "overlap" : "hole"));
      }
      covered = entry.end;
    }
    if (covered != data_bytes_) {
      scanner_.fail_at(
          kLengthBytes + text_.size() + covered, "E-ST-TILING",
          fmt::format("the tensors cover {} of {} bytes of data", covered, data_bytes_));
    }
  }

  std::span<char> text_;
  std::uint64_t data_bytes_;
  JsonScanner scanner_;
  std::vector<Entry> entries_;
};

std::uint64_t read_safetensors_header_length(ByteSource& source) {
  const std::string where = fmt::format("{} at byte 0", source.name());
  if (source.size() < kLengthBytes) {
    throw FormatError("E-ST-LENGTH", where,
                      fmt::format("{} bytes are too few for a safetensors file", source.size()));
  }
  unsigned char bytes[kLengthBytes];
  source.read(0, std::as_writable_bytes(std::span(bytes)));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8U | bytes[i];
  }
  if (length > kMaxSafetensorsHeader) {
    throw FormatError("E-ST-LENGTH", where,
                      fmt::format("header length {} exceeds {}: no safetensors file", length,
                                  kMaxSafetensorsHeader));
  }
  if (length > source.size() - kLengthBytes) {
    throw FormatError("E-ST-LENGTH", where,
                      fmt::format("a header of {} bytes does not fit a file of {}: cut short?",
                                  length, source.size()));
  }
  return length;
}

SafetensorsTensor materialise(const Entry& entry, std::span<const char> text,
                              std::uint64_t data_offset) {
  SafetensorsTensor tensor;
  tensor.name.assign(text.data() + entry.name_position, entry.name_bytes);
  tensor.type = entry.type;
  tensor.shape.reserve(entry.rank);
  // Validated above: nothing but digits, commas and white space up to the bracket.
  std::size_t position = entry.shape_position + 1;
  while (tensor.shape.size() < entry.rank) {
    while (text[position] < '0' || text[position] > '9') {
      ++position;
    }
    std::int64_t dimension = 0;
    while (text[position] >= '0' && text[position] <= '9') {
      dimension = dimension * 10 + (text[position++] - '0');
    }
    tensor.shape.push_back(dimension);
  }
  tensor.offset = data_offset + entry.begin;
  tensor.bytes = entry.end - entry.begin;
  return tensor;
}
}  // namespace

SafetensorsHeader read_safetensors_header(ByteSource& source,
                                          const std::function<void(std::uint64_t)>& ask_for_room) {
  const std::uint64_t length = read_safetensors_header_length(source);
  if (ask_for_room) {
    ask_for_room(length);
  }
  const auto buffer = std::make_unique_for_overwrite<char[]>(length);
  const std::span text(buffer.get(), length);
  source.read(kLengthBytes, std::as_writable_bytes(text));
  if (text.empty() || text.front() != '{') {
    throw FormatError("E-ST-HEADER", fmt::format("{} at byte {}", source.name(), kLengthBytes),
                      "the header does not begin with '{': no safetensors file");
  }
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  Sha256 digest;
  unsigned char prefix[kLengthBytes];
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    prefix[i] = static_cast<unsigned char>(length >> (8 * i));
  }
  digest.update(std::as_bytes(std::span(prefix)));
  digest.update(std::as_bytes(text));  // before escapes are decoded in place
  const std::vector<Entry> entries =
      HeaderParser(source, text, source.size() - header.data_offset).parse();
  header.header_sha256 = hex(digest.finish());
  header.tensors.reserve(entries.size());
  for (const Entry& entry : entries) {
    header.tensors.push_back(materialise(entry, text, header.data_offset));
  }
  return header;
}

SafetensorsMetadata read_safetensors_metadata(ByteSource& source) {
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

}  // namespace vindex::input
