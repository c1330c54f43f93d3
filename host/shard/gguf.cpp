// Owns one pass over a header: prefix, keys, table; every number checked.
#include "buffered_reader.hpp"
#include "gguf_header.hpp"
#include "gguf_table.hpp"

#include <vindex/core/digest.hpp>
#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/shard/gguf.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace vindex::shard {

namespace {
constexpr std::uint64_t kMaxGgufTensors = 1'000'000;
constexpr std::uint64_t kMaxKeys = 1'000'000;
constexpr std::uint64_t kMaxGgufName = 65'536;
constexpr std::uint64_t kLongestString = std::uint64_t{256} << 20U;
constexpr std::uint64_t kLongestArray = std::uint64_t{64} << 20U;
/// Bounds the time that walking and hashing a hostile header takes; the largest header known (a
/// vocabulary of 256 K tokens with merges) has 20 MB.
constexpr std::uint64_t kMaxGgufHeader = std::uint64_t{1} << 30U;
constexpr std::uint64_t kMaxIntegers = 4096;
/// What the first pass keeps of a name and its extent, in lists that have room to grow.
constexpr std::uint64_t kRoomPerName = 96;
/// Beyond these sums values stay in the file: their byte range is known.
constexpr std::uint64_t kKeptStringBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kKeptIntegers = std::uint64_t{4} << 20U;

/// Shortest possible key (one-byte name, one-byte value) and tensor entry (one-byte name, rank 0),
/// beside the length of the name.
constexpr std::uint64_t kShortestKey = 1 + 4 + 1;
constexpr std::uint64_t kShortestTensor = 1 + 4 + 4 + 8;

/// Bytes of a scalar of this type; 0 for strings and arrays, nothing for an unknown type.
std::optional<std::size_t> scalar_bytes(std::uint32_t type) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? std::optional(kBytes[type]) : std::nullopt;
}

std::int64_t sign_extend(std::uint64_t value, std::size_t bytes) {
  const unsigned int shift = 64U - 8U * static_cast<unsigned int>(bytes);
  return static_cast<std::int64_t>(value << shift) >> shift;
}

bool is_signed(GgufType type) {
  return type == GgufType::kI8 || type == GgufType::kI16 || type == GgufType::kI32 ||
         type == GgufType::kI64;
}

bool is_integer(GgufType type) {
  return type != GgufType::kF32 && type != GgufType::kF64 && type != GgufType::kString &&
         type != GgufType::kArray;
}

GgufScalar scalar_of(GgufType type, std::uint64_t bits, std::size_t bytes) {
  if (type == GgufType::kF32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  if (type == GgufType::kF64) {
    return std::bit_cast<double>(bits);
  }
  if (is_signed(type)) {
    return sign_extend(bits, bytes);
  }
  return bits;
}

/// Reads the header once. Two passes are made over a file: the first validates everything and
/// keeps 24 bytes per key and tensor, the second builds the result, so that a refusal needs little
/// memory however many names came before it.
class HeaderPass {
 public:
  HeaderPass(ByteSource& source, bool keep) : reader_(source), keep_(keep) {}

  GgufHeader run(bool with_tensors = true, const AskForRoom& ask_for_room = {}) {
    read_prefix();
    if (ask_for_room) {
      ask_for_room(kRoomPerName * (tensor_count_ + key_count_));
    }
    read_keys();
    if (with_tensors) {
      read_tensors();
    }
    header_.tensor_count = tensor_count_;
    return std::move(header_);
  }
  /// After the first pass: some tensor could be a matrix.
  bool has_matrices() const { return has_matrices_; }

 private:
  void read_prefix();
  void read_keys();
  void read_key();
  void read_value(GgufKey& key);
  void read_array(GgufKey& key);
  void read_integers(GgufKey& key, std::size_t element_bytes);
  void note_key(const GgufKey& key, std::uint64_t position);
  void read_tensors();
  std::uint64_t string_length(std::uint64_t limit, const char* what);
  GgufType value_type(const char* what);
  void check_size() const;

  BufferedReader reader_;
  bool keep_;
  bool bitnet_ = false;
  bool has_matrices_ = false;
  GgufHeader header_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t kept_string_bytes_ = 0;
  std::uint64_t kept_integers_ = 0;
};

void HeaderPass::read_prefix() {
  if (reader_.view(std::min<std::uint64_t>(reader_.left(), 4), "the magic") != "GGUF") {
    reader_.fail(0, "E-GGUF-MAGIC", "does not begin with the bytes \"GGUF\": no GGUF file");
  }
  header_.version = reader_.u32("the version");
  // Byte order is not marked; no version number is so large that its low half is zero.
  header_.big_endian = header_.version != 0 && (header_.version & 0xFFFFU) == 0;
  if (header_.big_endian) {
    header_.version = __builtin_bswap32(header_.version);
  }
  if (header_.version < 1 || header_.version > 3) {
    reader_.fail(4, "E-GGUF-VERSION",
                 fmt::format("GGUF version {}{} is unknown (1, 2 and 3 are read)", header_.version,
                             header_.big_endian ? " (big-endian)" : ""));
  }
  const std::uint64_t length_bytes = header_.version == 1 ? 4 : 8;
  reader_.set_layout({.big_endian = header_.big_endian, .length_bytes = length_bytes});
  tensor_count_ = reader_.length("the tensor count");
  const std::uint64_t key_count_position = reader_.position();
  key_count_ = reader_.length("the key count");
  if (tensor_count_ > kMaxGgufTensors ||
      tensor_count_ > reader_.left() / (length_bytes + kShortestTensor)) {
    reader_.fail(8, "E-GGUF-COUNT",
                 fmt::format("{} tensors: more than {}, or than the {} bytes left can hold",
                             tensor_count_, kMaxGgufTensors, reader_.left()));
  }
  if (key_count_ > kMaxKeys || key_count_ > reader_.left() / (length_bytes + kShortestKey)) {
    reader_.fail(key_count_position, "E-GGUF-COUNT",
                 fmt::format("{} keys: more than {}, or than the {} bytes left can hold",
                             key_count_, kMaxKeys, reader_.left()));
  }
}

void HeaderPass::check_size() const {
  if (reader_.position() > kMaxGgufHeader) {
    reader_.fail(reader_.position(), "E-GGUF-LIMIT",
                 fmt::format("the header exceeds {} bytes", kMaxGgufHeader));
  }
}

std::uint64_t HeaderPass::string_length(std::uint64_t limit, const char* what) {
  const std::uint64_t position = reader_.position();
  const std::uint64_t length = reader_.length(what);
  if (length > limit || length > reader_.left()) {
    reader_.fail(position, "E-GGUF-STRING",
                 fmt::format("{} of {} bytes: more than the limit of {}, or than the {} bytes left",
                             what, length, limit, reader_.left()));
  }
  return length;
}

GgufType HeaderPass::value_type(const char* what) {
  const std::uint64_t position = reader_.position();
  const std::uint32_t type = reader_.u32(what);
  if (!scalar_bytes(type)) {
    reader_.fail(position, "E-GGUF-KEY-TYPE", fmt::format("{} {} does not exist", what, type));
  }
  return static_cast<GgufType>(type);
}

void HeaderPass::read_keys() {
  FingerprintList names;
  if (keep_) {
    header_.keys.reserve(key_count_);
  }
  for (std::uint64_t i = 0; i < key_count_; ++i) {
    const std::uint64_t position = reader_.position();
    const std::uint64_t length = string_length(kMaxGgufName, "a key's name");
    if (length == 0) {
      reader_.fail(position, "E-GGUF-KEY-EMPTY", fmt::format("key {} has an empty name", i));
    }
    GgufKey key;
    key.name = reader_.view(length, "a key's name");
    if (!keep_) {
      names.add(key.name, position);
    }
    key.type = value_type("a key's value type");
    key.value_offset = reader_.position();
    read_value(key);
    key.value_bytes = reader_.position() - key.value_offset;
    check_size();
    note_key(key, position);
    if (keep_) {
      header_.keys.push_back(std::move(key));
    }
  }
  if (const auto twice = names.duplicate()) {
    reader_.fail(*twice, "E-GGUF-DUPLICATE-KEY", "this key's name occurs twice");
  }
}

void HeaderPass::note_key(const GgufKey& key, std::uint64_t position) {
  if (key.name == "general.alignment") {
    const auto* value = std::get_if<std::uint64_t>(&key.value);
    if (key.type != GgufType::kU32 || value == nullptr || !std::has_single_bit(*value)) {
      reader_.fail(position, "E-GGUF-ALIGNMENT",
                   "general.alignment must be a u32 and a power of two");
    }
    header_.alignment = *value;
  }
  if (key.name == "general.architecture" && key.type == GgufType::kString) {
    const std::uint64_t length_bytes = reader_.layout().length_bytes;
    reader_.seek(key.value_offset + length_bytes);
    const std::uint64_t length = key.value_bytes - length_bytes;
    bitnet_ = reader_.view(std::min<std::uint64_t>(length, 6), "the architecture") == "bitnet";
    reader_.seek(key.value_offset + key.value_bytes);
  }
}

void HeaderPass::read_value(GgufKey& key) {
  if (key.type == GgufType::kArray) {
    return read_array(key);
  }
  if (key.type == GgufType::kString) {
    const std::uint64_t length = string_length(kLongestString, "a string");
    if (keep_ && kept_string_bytes_ + length <= kKeptStringBytes) {
      kept_string_bytes_ += length;
      key.value = reader_.text(length, "a string");
    } else {
      key.value = std::string();
      reader_.skip(length, "a string");
    }
    return;
  }
  const std::size_t bytes = *scalar_bytes(static_cast<std::uint32_t>(key.type));
  const std::uint64_t bits = reader_.number(bytes, "a value");
  if (key.type == GgufType::kBool && bits > 1) {
    reader_.fail(key.value_offset, "E-GGUF-BOOL", fmt::format("a bool of value {}", bits));
  }
  key.value = scalar_of(key.type, bits, bytes);
}

void HeaderPass::read_array(GgufKey& key) {
  const std::uint64_t position = reader_.position();
  key.element_type = value_type("an array's element type");
  if (key.element_type == GgufType::kArray) {
    reader_.fail(position, "E-GGUF-NESTED-ARRAY", "arrays of arrays are not supported");
  }
  const std::uint64_t count_position = reader_.position();
  key.array_count = reader_.length("an array's count");
  const bool strings = key.element_type == GgufType::kString;
  const std::size_t each = strings ? reader_.layout().length_bytes
                                   : *scalar_bytes(static_cast<std::uint32_t>(key.element_type));
  if (key.array_count > kLongestArray || key.array_count > reader_.left() / each) {
    reader_.fail(
        count_position, "E-GGUF-ARRAY",
        fmt::format("an array of {} elements: more than {}, or than the {} bytes left hold",
                    key.array_count, kLongestArray, reader_.left()));
  }
  if (strings) {
    if (!reader_.skip_strings(key.array_count, kLongestString, kMaxGgufHeader)) {
      check_size();
      string_length(kLongestString, "an array's string");
      reader_.fail(reader_.position(), "E-GGUF-LIMIT",
                   fmt::format("the header exceeds {} bytes", kMaxGgufHeader));
    }
  } else if (keep_ && is_integer(key.element_type) && key.array_count <= kMaxIntegers &&
             kept_integers_ + key.array_count <= kKeptIntegers) {
    kept_integers_ += key.array_count;
    read_integers(key, each);
  } else {
    reader_.skip(key.array_count * each, "an array");
  }
}

void HeaderPass::read_integers(GgufKey& key, std::size_t element_bytes) {
  key.integers.reserve(key.array_count);
  bool fits = true;
  for (std::uint64_t i = 0; i < key.array_count; ++i) {
    const std::uint64_t bits = reader_.number(element_bytes, "an array");
    fits = fits && (is_signed(key.element_type) || checked_count(bits));
    key.integers.push_back(is_signed(key.element_type) ? sign_extend(bits, element_bytes)
                                                       : static_cast<std::int64_t>(bits));
  }
  if (!fits) {
    key.integers.clear();
  }
}

void HeaderPass::read_tensors() {
  TensorTable table(reader_, bitnet_);
  if (keep_) {
    header_.tensors.reserve(tensor_count_);
  }
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    const std::uint64_t position = reader_.position();
    GgufTensor tensor;
    const std::uint64_t length = string_length(kMaxGgufName, "a tensor's name");
    if (length == 0) {
      reader_.fail(position, "E-GGUF-TENSOR-EMPTY", fmt::format("tensor {} has an empty name", i));
    }
    tensor.name = reader_.view(length, "a tensor's name");
    table.read_entry(tensor, position, header_.alignment);
    check_size();
    has_matrices_ = has_matrices_ || (tensor.dimensions.size() >= 2 && tensor.bytes > 0);
    if (keep_) {
      header_.tensors.push_back(std::move(tensor));
    }
  }
  const auto data = checked_round_up(reader_.position(), header_.alignment);
  expects(data.has_value(), "a header of at most 1 GiB rounds up to 64 bits");
  header_.data_offset = *data;
  for (GgufTensor& tensor : header_.tensors) {
    tensor.offset += header_.data_offset;  // fits: the first pass has compared it with the file
  }
  if (!keep_) {
    table.check(header_.data_offset, header_.alignment, header_.warnings);
  }
}

std::string digest_of_header(ByteSource& source, std::uint64_t bytes) {
  Sha256 digest;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 1U << 20U)));
  for (std::uint64_t done = 0; done < bytes;) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - done));
    source.read(done, std::span(piece).first(now));
    digest.update(std::span<const std::byte>(piece).first(now));
    done += now;
  }
  return hex(digest.finish());
}
}  // namespace

GgufHeader read_gguf_header(ByteSource& source) { return read_gguf_header(source, {}); }

GgufHeader read_gguf_header(ByteSource& source, const AskForRoom& ask_for_room, KeepTensors keep) {
  HeaderPass first(source, false);
  GgufHeader judged = first.run(true, ask_for_room);
  const bool with_tensors = keep == KeepTensors::kAll || first.has_matrices();
  GgufHeader header = HeaderPass(source, true).run(with_tensors);
  header.warnings = std::move(judged.warnings);
  header.data_offset = judged.data_offset;
  if (!with_tensors) {
    return header;
  }
  header.header_sha256 = digest_of_header(source, std::min(header.data_offset, source.size()));
  return header;
}

const GgufKey* find_key(const std::vector<GgufKey>& keys, std::string_view name) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [name](const GgufKey& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace vindex::shard
