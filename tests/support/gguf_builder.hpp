// Owns building GGUF bytes in memory for tests: a valid file by default, any field wrong on
// request. Positions of fields are reported so that tests can demand that an error names the right
// byte.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::testing {

/// `value` as little-endian bytes.
template <typename T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
  return out;
}

inline std::string gguf_string(std::string_view text) {
  return little_endian(std::uint64_t{text.size()}) + std::string(text);
}

/// A number as a builder writes it: in the byte order of the file it is for.
inline std::string in_order(std::string little_endian_number, bool big_endian) {
  if (big_endian) {
    std::reverse(little_endian_number.begin(), little_endian_number.end());
  }
  return little_endian_number;
}

class GgufBuilder {
 public:
  GgufBuilder() = default;
  /// Of another container: version 1 has 32-bit counts and lengths.
  explicit GgufBuilder(std::uint32_t of_version, bool is_big_endian = false)
      : version(of_version), big_endian(is_big_endian), length_bytes(of_version == 1 ? 4 : 8) {}

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  bool big_endian = false;
  std::size_t length_bytes = 8;  ///< of counts, lengths and dimensions
  std::uint64_t alignment = 32;  ///< of the bytes; the key is the test's business
  std::optional<std::uint64_t> tensor_count;
  std::optional<std::uint64_t> key_count;
  std::string data;         ///< the data section
  std::string after_table;  ///< put right after the tensor table, before the padding

  template <typename T>
  std::string number(T value) const {
    return in_order(little_endian(value), big_endian);
  }
  /// A count or length, cut to the width of this container's.
  std::string length(std::uint64_t value) const {
    return in_order(little_endian(value).substr(0, length_bytes), big_endian);
  }
  std::string text(std::string_view value) const {
    return length(value.size()) + std::string(value);
  }

  GgufBuilder& key(std::string_view name, std::uint32_t type, const std::string& value) {
    keys_.push_back({text(name), number(type) + value});
    return *this;
  }
  GgufBuilder& key_u32(std::string_view name, std::uint32_t value) {
    return key(name, 4, number(value));
  }
  GgufBuilder& key_u16(std::string_view name, std::uint16_t value) {
    return key(name, 2, number(value));
  }
  GgufBuilder& key_i32(std::string_view name, std::int32_t value) {
    return key(name, 5, number(value));
  }
  GgufBuilder& key_string(std::string_view name, std::string_view value) {
    return key(name, 8, text(value));
  }
  /// An array whose count is `count` whatever `elements` holds.
  GgufBuilder& key_array(std::string_view name, std::uint32_t element_type, std::uint64_t count,
                         const std::string& elements) {
    return key(name, 9, number(element_type) + length(count) + elements);
  }

  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                      std::uint32_t type, std::uint64_t offset) {
    std::string dims;
    for (const std::uint64_t dimension : dimensions) {
      dims += length(dimension);
    }
    return raw_tensor(name, static_cast<std::uint32_t>(dimensions.size()), dims, type, offset);
  }
  GgufBuilder& raw_tensor(std::string_view name, std::uint32_t rank, const std::string& dims,
                          std::uint32_t type, std::uint64_t offset) {
    tensors_.push_back({text(name), number(rank) + dims + number(type) + number(offset)});
    dimension_bytes_.push_back(dims.size());
    return *this;
  }

  std::uint64_t key_position(std::size_t i) const {
    return 8 + 2 * length_bytes + bytes_of(keys_, i);
  }
  std::uint64_t key_type_position(std::size_t i) const {
    return key_position(i) + keys_[i].first.size();
  }
  std::uint64_t key_value_position(std::size_t i) const { return key_type_position(i) + 4; }
  std::uint64_t tensor_position(std::size_t i) const {
    return key_position(keys_.size()) + bytes_of(tensors_, i);
  }
  std::uint64_t rank_position(std::size_t i) const {
    return tensor_position(i) + tensors_[i].first.size();
  }
  std::uint64_t type_position(std::size_t i) const {
    return rank_position(i) + 4 + dimension_bytes_[i];
  }
  std::uint64_t offset_position(std::size_t i) const { return type_position(i) + 4; }
  std::uint64_t header_end() const { return tensor_position(tensors_.size()) + after_table.size(); }
  std::uint64_t data_position() const {
    return (header_end() + alignment - 1) / alignment * alignment;
  }

  /// The header alone, without padding.
  std::string header() const {
    std::string out = magic + number(version) + length(tensor_count.value_or(tensors_.size())) +
                      length(key_count.value_or(keys_.size()));
    for (const auto* part : {&keys_, &tensors_}) {
      for (const auto& [name, rest] : *part) {
        out += name + rest;
      }
    }
    return out + after_table;
  }
  std::string bytes() const {
    std::string out = header();
    if (alignment > 0) {
      out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    }
    return out + data;
  }

 private:
  using Parts = std::vector<std::pair<std::string, std::string>>;
  static std::uint64_t bytes_of(const Parts& parts, std::size_t count) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += parts[i].first.size() + parts[i].second.size();
    }
    return sum;
  }

  Parts keys_;
  Parts tensors_;
  std::vector<std::size_t> dimension_bytes_;
};

/// Two keys and two tensors: F32 4 x 2 at 0, Q4_0 64 x 1 at 32; data padded to the alignment.
inline GgufBuilder small_gguf(std::uint32_t version = 3, bool big_endian = false) {
  GgufBuilder builder(version, big_endian);
  builder.key_string("general.architecture", "llama").key_u32("llama.block_count", 1);
  builder.tensor("a.weight", {4, 2}, 0, 0).tensor("b.weight", {64}, 2, 32);
  builder.data = std::string(32, 'a') + std::string(36, 'b') + std::string(28, '\0');
  return builder;
}

}  // namespace vindex::testing
