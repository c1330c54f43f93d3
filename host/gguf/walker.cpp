// Owns the order of the fields.
#include "walker.hpp"

#include "limits.hpp"

#include <algorithm>
#include <array>

namespace vindex::gguf {
namespace {

constexpr std::array<Field, 4> kTexts = {
    {{"a key's name"}, {"a string"}, {"an array's string", "a string"}, {"a tensor's name"}}};
constexpr std::array<Field, 4> kLengths = {{{"a key's name", "the length of a key's name"},
                                            {"a string", "the length of a string"},
                                            {"an array's string", "the length of a string"},
                                            {"a tensor's name", "the length of a tensor's name"}}};

class Walk {
 public:
  Walk(BufferedReader& reader, Sink& sink) : reader_(reader), sink_(sink) {}

  void run() {
    if (!read_prefix()) {
      return;
    }
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      read_key(i);
    }
    if (!sink_.keys_end()) {
      return;
    }
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      read_tensor(i);
    }
    sink_.tensors_end();
  }

 private:
  bool read_prefix();
  void read_key(std::uint64_t index);
  void read_value();
  void read_array();
  void read_tensor(std::uint64_t index);

  std::uint64_t read_length(Text text) {
    const std::uint64_t bytes = reader_.length(kLengths.at(static_cast<std::size_t>(text)));
    sink_.length(text, bytes);
    return bytes;
  }
  template <typename Entry>
  void read_name(Text text, std::uint64_t index, Entry& entry) {
    entry.index = index;
    entry.position = reader_.position();
    entry.name_bytes = read_length(text);
    const std::uint64_t kept = std::min(entry.name_bytes, kLongestName);
    entry.name = reader_.view(kept, field_of(text));
    reader_.skip(entry.name_bytes - kept, field_of(text));
  }

  BufferedReader& reader_;
  Sink& sink_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  WalkedKey key_;        // its memory serves every key
  WalkedTensor tensor_;  // and every entry
};

bool Walk::read_prefix() {
  const std::string_view magic =
      reader_.view(std::min<std::uint64_t>(reader_.left(), 4), {"the magic"});
  if (magic != "GGUF") {
    sink_.no_magic(magic.size());
    return false;
  }
  std::uint32_t version = reader_.u32({"the version"});
  // Byte order is not marked; no version number is so large that its low half is zero.
  const bool big_endian = version != 0 && (version & 0xFFFFU) == 0;
  if (big_endian) {
    version = __builtin_bswap32(version);
  }
  if (!sink_.version(version, big_endian)) {
    return false;
  }
  reader_.set_layout({.big_endian = big_endian, .length_bytes = version == 1 ? 4U : 8U});
  tensor_count_ = reader_.length({"the tensor count"});
  const std::uint64_t key_count_position = reader_.position();
  key_count_ = reader_.length({"the key count"});
  return sink_.counts(tensor_count_, key_count_, key_count_position);
}

void Walk::read_key(std::uint64_t index) {
  read_name(Text::kKeyName, index, key_);
  sink_.key_name(key_);
  key_.type = static_cast<ValueType>(reader_.u32({"a key's value type", "a key's type"}));
  key_.element_type = ValueType::kU32;
  key_.count = 0;
  key_.bits = 0;
  key_.value_offset = reader_.position();
  sink_.key_type(key_);
  read_value();
  key_.value_bytes = reader_.position() - key_.value_offset;
  sink_.key(key_);
}

void Walk::read_value() {
  if (key_.type == ValueType::kArray) {
    read_array();
  } else if (key_.type == ValueType::kString) {
    reader_.skip(read_length(Text::kString), field_of(Text::kString));
  } else {
    key_.bits = reader_.number(number_bytes(key_.type), {"a value"});
  }
}

void Walk::read_array() {
  key_.element_type = static_cast<ValueType>(reader_.u32({"an array's element type"}));
  sink_.element_type(key_);
  key_.count = reader_.length({"an array's count"});
  sink_.array(key_);
  if (key_.element_type != ValueType::kString) {
    return reader_.skip(key_.count * number_bytes(key_.element_type), {"an array"});
  }
  const Sink::PassedOver most = sink_.passed_over();
  std::uint64_t left = key_.count;
  while ((left -= reader_.skip_strings(left, most.string_bytes, most.end)) > 0) {
    reader_.skip(read_length(Text::kArrayString), field_of(Text::kArrayString));
    --left;
  }
}

void Walk::read_tensor(std::uint64_t index) {
  read_name(Text::kTensorName, index, tensor_);
  sink_.tensor_name(tensor_);
  const std::uint32_t rank = reader_.u32({"a tensor's dimension count"});
  sink_.tensor_rank(tensor_, rank);
  tensor_.dimensions.clear();
  for (std::uint32_t i = 0; i < rank; ++i) {
    tensor_.dimensions.push_back(reader_.length({"a tensor's dimension", "a dimension"}));
  }
  sink_.tensor_shape(tensor_);
  tensor_.type_id = reader_.u32({"a tensor's type"});
  sink_.tensor_type(tensor_);
  tensor_.offset = reader_.u64({"a tensor's offset"});
  sink_.tensor(tensor_);
}

}  // namespace

const Field& field_of(Text text) { return kTexts.at(static_cast<std::size_t>(text)); }

void walk(BufferedReader& reader, Sink& sink) { Walk(reader, sink).run(); }

}  // namespace vindex::gguf
