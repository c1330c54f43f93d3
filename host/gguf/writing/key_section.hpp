// Owns the key section of a GGUF file that is to be written: version 3, little-endian, keys in the
// order in which they were added and of the types that were asked for. Loaders refuse a key of
// another integer type than they expect, so types are the caller's choice, never inferred.
// Source: ggml include/gguf.h, docs/gguf.md.
#pragma once
#include "gguf/header.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace vindex::gguf {

/// Errors of every member: FormatError E-GGUF-KEY for an empty name, one of more than 65535 bytes
/// or one that was there before.
class KeySection {
 public:
  /// `keys.add<std::uint32_t>(name, 3)`: the type is always written out.
  template <typename T>
  void add(std::string_view name, std::type_identity_t<T> value) {
    add_encoded(name, ValueTypeOf<T>::kType, std::as_bytes(std::span(&value, 1)));
  }
  void add_string(std::string_view name, std::string_view value);
  /// An array of numbers; bool is one byte each and has no array here.
  template <typename T>
  void add_array(std::string_view name, std::span<const std::type_identity_t<T>> values) {
    static_assert(!std::is_same_v<T, bool>);
    add_array_bytes(name, ValueTypeOf<T>::kType, values.size(), std::as_bytes(values));
  }
  void add_strings(std::string_view name, std::span<const std::string> values);
  /// `key` of a file that was read, value for value: long values are read from `source` when the
  /// section is written, so it must live until then. `header` says which container it is: values of
  /// version 1 or of a big-endian file are converted.
  void copy(const Key& key, const Header& header, ByteSource& source);
  /// A value of encoded_value().
  void add_encoded(std::string_view name, ValueType type, std::span<const std::byte> value);

  std::uint64_t count() const { return names_.size(); }
  /// general.alignment as added, 32 without. Errors: FormatError E-GGUF-ALIGNMENT where it is no
  /// u32 or no power of two.
  std::uint64_t alignment() const;

  /// Bytes in memory, or, where `source` is given, `count` bytes of it from `offset`.
  struct Piece {
    std::vector<std::byte> bytes;
    ByteSource* source = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
  };
  /// The section, in order.
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<std::byte>& begin(std::string_view name, ValueType type);
  void add_array_bytes(std::string_view name, ValueType type, std::uint64_t count,
                       std::span<const std::byte> values);

  std::vector<Piece> pieces_;
  std::set<std::string, std::less<>> names_;
  bool alignment_is_u32_ = true;
  std::uint64_t alignment_ = 32;
};

}  // namespace vindex::gguf
