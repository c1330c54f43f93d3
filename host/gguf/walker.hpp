// Owns the one way through a GGUF file: prefix, keys, tensor table, field by field. It knows the
// structure and judges nothing: what it meets goes to a sink, which refuses (read_header()), notes
// and goes on (`organ verify`), or ends the walk by throwing.
#pragma once

#include "buffered_reader.hpp"
#include "value_type.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::gguf {

/// A key as it lies in the file; what comes behind the name is set as far as the walk has come.
struct WalkedKey {
  std::uint64_t index = 0;
  std::uint64_t position = 0;    ///< of the entry
  std::uint64_t name_bytes = 0;  ///< in the file
  std::string name;              ///< its first kLongestName bytes
  ValueType type = ValueType::kU32;
  ValueType element_type = ValueType::kU32;  ///< of an array
  std::uint64_t count = 0;                   ///< of an array
  std::uint64_t bits = 0;                    ///< of a number
  std::uint64_t value_offset = 0;            ///< of the value's bytes, behind the type
  std::uint64_t value_bytes = 0;
};

/// An entry of the table; as WalkedKey.
struct WalkedTensor {
  std::uint64_t index = 0;
  std::uint64_t position = 0;
  std::uint64_t name_bytes = 0;
  std::string name;
  std::vector<std::uint64_t> dimensions;  ///< contiguous first
  std::uint32_t type_id = 0;
  std::uint64_t offset = 0;  ///< relative to the data
};

/// A string of a file.
enum class Text : std::uint8_t { kKeyName, kString, kArrayString, kTensorName };
/// The words for one: "a key's name".
const Field& field_of(Text text);

/// Takes what a walk meets, in the file's order; each call comes when its field has been read, with
/// the reader behind it. A sink may read elsewhere during a call if it leads the reader back.
class Sink {
 public:
  virtual ~Sink() = default;

  /// The file does not begin with the magic, of which `bytes` are there. The walk ends.
  virtual void no_magic(std::uint64_t bytes) = 0;
  /// False ends the walk; it must where no layout of the version is known.
  virtual bool version(std::uint32_t version, bool big_endian) = 0;
  /// `key_count_position`: where the count of keys lies. False ends the walk.
  virtual bool counts(std::uint64_t tensors, std::uint64_t keys,
                      std::uint64_t key_count_position) = 0;

  /// A string has `bytes` bytes. Must throw where fewer are left.
  virtual void length(Text text, std::uint64_t bytes) = 0;
  /// The longest string, and the end of the last, that an array is passed over without asking
  /// length() for.
  struct PassedOver {
    std::uint64_t string_bytes = 0;
    std::uint64_t end = 0;
  };
  virtual PassedOver passed_over() const = 0;

  virtual void key_name(const WalkedKey& key) = 0;
  /// Must throw where the type is unknown.
  virtual void key_type(const WalkedKey& key) = 0;
  virtual void element_type(const WalkedKey& /*key*/) {}
  /// The count of an array. Must throw where its elements are arrays, of unknown type, or more than
  /// the bytes that are left can hold.
  virtual void array(const WalkedKey& key) = 0;
  /// The whole key, which may be moved from.
  virtual void key(WalkedKey& key) = 0;
  /// False ends the walk.
  virtual bool keys_end() = 0;

  virtual void tensor_name(const WalkedTensor& tensor) = 0;
  virtual void tensor_rank(const WalkedTensor& tensor, std::uint32_t rank) = 0;
  virtual void tensor_shape(const WalkedTensor& /*tensor*/) {}
  virtual void tensor_type(const WalkedTensor& /*tensor*/) {}
  /// The whole entry, which may be moved from.
  virtual void tensor(WalkedTensor& tensor) = 0;
  virtual void tensors_end() = 0;
};

/// Walks from the file's beginning. Errors: Truncated where a field does not fit; those of `sink`
/// and of ByteSource::read().
void walk(BufferedReader& reader, Sink& sink);

}  // namespace vindex::gguf
