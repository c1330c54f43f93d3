// Owns looking at one key's value: its bytes as version 3 stores them, little-endian, whatever
// container they lie in, read piece by piece; their digest, their text, and where two arrays first
// differ.
#pragma once
#include "gguf/header.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::gguf {

class Value {
 public:
  /// `key` of the file with `header` and `source`; all must outlive this. Errors: those of
  /// ByteSource::read().
  Value(const Key& key, const Header& header, ByteSource& source);

  const Key& key() const { return key_; }
  bool is_array() const { return key_.type == ValueType::kArray; }
  std::uint64_t size() const { return size_; }
  /// Errors: expects() on a range outside the value; those of ByteSource::read().
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// SHA-256 of type and value, lower-case hex: equal values of other types differ.
  std::string digest() const;
  /// A number, true, a text in quotes, or "256 x str": printable, at most `limit` bytes of a text.
  std::string text(std::size_t limit = 60) const;
  /// Element `index` of an array, as text.
  std::string element_text(std::uint64_t index, std::size_t limit = 60) const;
  /// Where element `index` of an array begins, from the beginning of the value.
  std::uint64_t element_offset(std::uint64_t index) const;
  /// The element that byte `offset` of the value belongs to; nothing before the first.
  std::optional<std::uint64_t> element_at(std::uint64_t offset) const;

 private:
  const Key& key_;
  ByteSource& source_;
  std::optional<std::vector<std::byte>> held_;  // nothing: the value is read where it lies
  std::uint64_t size_ = 0;
};

/// An element that two arrays do not share; the text is empty where an array has ended.
struct FirstDifference {
  std::uint64_t index = 0;
  std::string a, b;
};

/// Of two arrays of one element type; nothing where they are equal.
std::optional<FirstDifference> first_difference(const Value& a, const Value& b);

}  // namespace vindex::gguf
