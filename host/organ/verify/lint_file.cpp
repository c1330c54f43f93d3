// Owns reading prefix, keys and table of a file, noting each broken rule and going on where that is
// possible.
#include "lint_file.hpp"

#include "gguf_value_types.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>

namespace vindex::organ {
namespace {

constexpr std::uint64_t kMaxEntries = 1'000'000;
constexpr std::uint64_t kLongestString = std::uint64_t{1} << 30U;
constexpr std::uint64_t kLongestArray = std::uint64_t{1} << 30U;
constexpr std::uint64_t kKeptName = 65'536;
constexpr std::uint64_t kKeptText = 1024;
constexpr std::size_t kLongestTensorName = 63;
constexpr std::array<std::size_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

std::string at_byte(std::uint64_t position) { return fmt::format("byte {}", position); }
std::string of_key(const LintKey& key) { return fmt::format("key \"{}\"", excerpt(key.name)); }

/// The file cannot be followed any further.
struct Broken {
  std::uint64_t position;
  std::string what;
};

/// Reads forward; everything out of the file ends in Broken.
class LintCursor {
 public:
  explicit LintCursor(shard::ByteSource& source) : source_(source) {}
  void set_layout(bool big_endian, std::size_t length_bytes) {
    big_endian_ = big_endian;
    length_bytes_ = length_bytes;
  }
  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return source_.size() - position_; }

  std::uint64_t number(std::size_t width, const char* what) {
    std::array<std::byte, 8> bytes{};
    take(std::span(bytes).first(width), what);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), width);
    return big_endian_ ? __builtin_bswap64(value) >> (64U - 8U * width) : value;
  }
  std::uint32_t u32(const char* what) { return static_cast<std::uint32_t>(number(4, what)); }
  std::uint64_t length(const char* what) { return number(length_bytes_, what); }
  std::string text(std::uint64_t bytes, std::uint64_t kept, const char* what) {
    need(bytes, what);
    std::string out(static_cast<std::size_t>(std::min(bytes, kept)), '\0');
    take(std::as_writable_bytes(std::span(out)), what);
    position_ += bytes - out.size();
    return out;
  }
  void skip(std::uint64_t bytes, const char* what) {
    need(bytes, what);
    position_ += bytes;
  }
  std::size_t length_bytes() const { return length_bytes_; }

 private:
  void need(std::uint64_t bytes, const char* what) const {
    if (bytes > left()) {
      throw Broken{position_, fmt::format("{} of {} bytes, and {} are left", what, bytes, left())};
    }
  }
  void take(std::span<std::byte> into, const char* what) {
    need(into.size(), what);
    while (!into.empty()) {
      if (position_ < begin_ || position_ >= begin_ + window_.size()) {
        begin_ = position_;
        window_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left(), 65'536)));
        source_.read(begin_, window_);
      }
      const auto from = static_cast<std::size_t>(position_ - begin_);
      const std::size_t now = std::min(into.size(), window_.size() - from);
      std::memcpy(into.data(), window_.data() + from, now);
      into = into.subspan(now);
      position_ += now;
    }
  }

  shard::ByteSource& source_;
  bool big_endian_ = false;
  std::size_t length_bytes_ = 8;
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> window_;
};

class LintReader {
 public:
  LintReader(LintFile& file, Findings& findings)
      : file_(file), findings_(findings), cursor_(*file.source) {}

  void run() {
    if (!prefix()) {
      return;
    }
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      read_key();
    }
    read_alignment();
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      read_tensor();
    }
    file_.header_end = cursor_.position();
    file_.data_offset =
        checked_round_up(file_.header_end, file_.alignment).value_or(file_.header_end);
    file_.complete = true;
  }

 private:
  bool prefix();
  void read_key();
  void read_value(LintKey& key);
  void read_array(LintKey& key);
  void judge_key_name(const LintKey& key);
  void read_alignment();
  void read_tensor();
  void judge_shape(LintTensor& tensor);
  void judge_type(LintTensor& tensor);

  LintFile& file_;
  Findings& findings_;
  LintCursor cursor_;
  std::uint64_t key_count_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::unordered_set<std::string> key_names_;
  std::unordered_set<std::string> tensor_names_;
};

bool LintReader::prefix() {
  if (cursor_.text(4, 4, "the magic") != "GGUF") {
    findings_.error("V-MAGIC", at_byte(0), "does not begin with the bytes GGUF",
                    "it is another format, or damaged");
    return false;
  }
  file_.version = cursor_.u32("the version");
  if (file_.version != 0 && (file_.version & 0xFFFFU) == 0) {
    file_.big_endian = true;
    file_.version = __builtin_bswap32(file_.version);
    findings_.error("V-BYTE-ORDER", at_byte(4),
                    "is big-endian: llama.cpp loads it on no usual "
                    "machine",
                    "`vindex organ extract` and `assemble` write it little-endian");
  }
  if (file_.version == 0 || file_.version > 3) {
    findings_.error("V-VERSION", at_byte(4), fmt::format("version {} is unknown", file_.version));
    return false;
  }
  if (file_.version == 1) {
    findings_.error("V-VERSION", at_byte(4), "version 1 is refused by ggml",
                    "`vindex organ extract` and `assemble` write version 3");
  } else if (file_.version == 2) {
    findings_.note("V-VERSION", at_byte(4), "version 2: read everywhere, 3 is written today");
  }
  cursor_.set_layout(file_.big_endian, file_.version == 1 ? 4 : 8);
  tensor_count_ = cursor_.length("the tensor count");
  key_count_ = cursor_.length("the key count");
  if (tensor_count_ > kMaxEntries || key_count_ > kMaxEntries) {
    findings_.error(
        "V-COUNT", at_byte(8),
        fmt::format("{} tensors and {} keys: more than any model has", tensor_count_, key_count_));
    return false;
  }
  return true;
}

void LintReader::read_key() {
  LintKey key;
  key.position = cursor_.position();
  const std::uint64_t length = cursor_.length("the length of a key's name");
  key.name = cursor_.text(length, kKeptName, "a key's name");
  judge_key_name(key);
  key.type = cursor_.u32("a key's type");
  read_value(key);
  file_.keys.push_back(std::move(key));
}

void LintReader::judge_key_name(const LintKey& key) {
  if (key.name.empty()) {
    findings_.error("V-KEY-EMPTY", at_byte(key.position), "a key has an empty name");
  } else if (key.name.size() >= kKeptName) {
    findings_.error("V-KEY-NAME", at_byte(key.position), "a key's name has more than 65535 bytes");
  } else if (!std::all_of(key.name.begin(), key.name.end(),
                          [](char c) { return c > ' ' && c < '\x7F'; })) {
    findings_.warning("V-KEY-NAME", of_key(key), "names of keys are printable ASCII by the format");
  }
  if (!key_names_.insert(key.name).second) {
    findings_.error("V-KEY-TWICE", of_key(key), "occurs twice: ggml refuses the file",
                    "write it again with one of them");
  }
}

void LintReader::read_value(LintKey& key) {
  if (key.type >= kTypeBytes.size()) {
    throw Broken{cursor_.position() - 4, fmt::format("key \"{}\": value type {} does not exist",
                                                     excerpt(key.name), key.type)};
  }
  if (key.type == kArrayType) {
    return read_array(key);
  }
  if (key.type == kStringType) {
    const std::uint64_t length = cursor_.length("the length of a string");
    if (length > kLongestString) {
      findings_.error("V-KEY-LIMIT", of_key(key), "a string of more than 1 GiB: ggml refuses it");
    }
    key.text = cursor_.text(length, kKeptText, "a string");
    return;
  }
  key.bits = cursor_.number(kTypeBytes.at(key.type), "a value");
  if (key.type == kBoolType && key.bits > 1) {
    findings_.warning("V-KEY-BOOL", of_key(key), fmt::format("a bool of value {}", key.bits));
  }
}

void LintReader::read_array(LintKey& key) {
  const std::uint64_t position = cursor_.position();
  key.element_type = cursor_.u32("an array's element type");
  key.count = cursor_.length("an array's count");
  if (key.element_type == kArrayType) {
    findings_.error("V-KEY-NESTED", of_key(key),
                    "an array of arrays: the format knows it, ggml refuses it",
                    "write the key flat, or leave it out");
    throw Broken{position, "what follows an array of arrays is not read"};
  }
  if (key.element_type >= kTypeBytes.size()) {
    throw Broken{position, fmt::format("key \"{}\": element type {} does not exist",
                                       excerpt(key.name), key.element_type)};
  }
  if (key.count > kLongestArray) {
    findings_.error("V-KEY-LIMIT", of_key(key), "an array of more than 2^30 elements");
  }
  if (key.element_type == kStringType) {
    if (key.count > cursor_.left() / cursor_.length_bytes()) {
      throw Broken{position, fmt::format("an array of {} strings, and {} bytes are left", key.count,
                                         cursor_.left())};
    }
    for (std::uint64_t i = 0; i < key.count; ++i) {
      cursor_.skip(cursor_.length("the length of a string"), "a string");
    }
    return;
  }
  const auto bytes = checked_multiply(key.count, kTypeBytes.at(key.element_type));
  cursor_.skip(bytes.value_or(~std::uint64_t{0}), "an array");
}

void LintReader::read_alignment() {
  const LintKey* key = file_.key("general.alignment");
  if (key == nullptr) {
    return;
  }
  constexpr std::uint32_t kU32 = 4;
  if (key->type != kU32) {
    findings_.error("V-ALIGNMENT-TYPE", of_key(*key),
                    fmt::format("is {}: ggml takes u32 alone", value_type_text(key->type)),
                    "write it as u32, or leave it out and lay the tensors out at 32");
  }
  const auto value = file_.number("general.alignment");
  if (!value || !std::has_single_bit(*value) || *value > (std::uint64_t{1} << 31U)) {
    findings_.error("V-ALIGNMENT-VALUE", of_key(*key),
                    fmt::format("{} is not a power of two: ggml refuses the file",
                                value ? std::to_string(*value) : "it"));
  } else {
    file_.alignment = *value;
  }
}

void LintReader::read_tensor() {
  LintTensor tensor;
  tensor.position = cursor_.position();
  const std::uint64_t length = cursor_.length("the length of a tensor's name");
  tensor.name = cursor_.text(length, kKeptName, "a tensor's name");
  if (tensor.name.empty()) {
    findings_.error("V-TENSOR-NAME-EMPTY", at_byte(tensor.position), "a tensor has an empty name");
  }
  if (length > kLongestTensorName) {
    findings_.error("V-TENSOR-NAME-LENGTH", of_tensor(tensor),
                    fmt::format("a name of {} bytes: ggml holds 63", length), "shorten the name");
  }
  if (!tensor_names_.insert(tensor.name).second) {
    findings_.error("V-TENSOR-TWICE", of_tensor(tensor), "occurs twice in this file");
  }
  const std::uint32_t rank = cursor_.u32("a tensor's dimension count");
  if (rank > 4) {
    findings_.error("V-TENSOR-DIMS", of_tensor(tensor),
                    fmt::format("{} dimensions: ggml holds 4", rank));
  }
  if (rank > 64) {
    throw Broken{tensor.position, fmt::format("a tensor of {} dimensions", rank)};
  }
  for (std::uint32_t i = 0; i < rank; ++i) {
    tensor.dimensions.push_back(cursor_.length("a dimension"));
  }
  tensor.type_id = cursor_.u32("a tensor's type");
  tensor.offset = cursor_.number(8, "a tensor's offset");
  judge_type(tensor);
  judge_shape(tensor);
  file_.tensors.push_back(std::move(tensor));
}

void LintReader::judge_type(LintTensor& tensor) {
  constexpr std::array<std::uint32_t, 8> kRemoved = {4, 5, 31, 32, 33, 36, 37, 38};
  constexpr std::uint32_t kPastTypes = 43;
  tensor.type = decode::element_type_of_ggml(tensor.type_id);
  if (tensor.type) {
    return;
  }
  if (std::find(kRemoved.begin(), kRemoved.end(), tensor.type_id) != kRemoved.end()) {
    findings_.error("V-TYPE-REMOVED", of_tensor(tensor),
                    fmt::format("type {} was removed from ggml", tensor.type_id),
                    "quantise again from the original");
  } else {
    findings_.error(
        "V-TYPE-UNKNOWN", of_tensor(tensor),
        tensor.type_id < kPastTypes
            ? fmt::format("type {} is never stored", tensor.type_id)
            : fmt::format("type {} is none of ggml's: a fork's, or damage", tensor.type_id));
  }
}

void LintReader::judge_shape(LintTensor& tensor) {
  const auto elements = checked_product(tensor.dimensions);
  if (!elements || !checked_count(*elements) ||
      std::any_of(tensor.dimensions.begin(), tensor.dimensions.end(),
                  [](std::uint64_t dimension) { return !checked_count(dimension); })) {
    findings_.error("V-TENSOR-SHAPE", of_tensor(tensor),
                    fmt::format("[{}] holds more than 2^63 weights, or a negative number of them",
                                fmt::join(tensor.dimensions, ", ")));
    return;
  }
  if (*elements == 0) {
    findings_.note("V-TENSOR-EMPTY", of_tensor(tensor), "holds no weights");
  }
  if (!tensor.type) {
    return;
  }
  const decode::ElementTypeRow& row = decode::element_type_row(*tensor.type);
  const std::uint64_t first = tensor.dimensions.empty() ? 1 : tensor.dimensions.front();
  if (first % static_cast<std::uint64_t>(row.block_elements) != 0) {
    findings_.error("V-TENSOR-BLOCK", of_tensor(tensor),
                    fmt::format("rows of {} do not fill blocks of {} ({})", first,
                                row.block_elements, row.name));
    return;
  }
  tensor.bytes = decode::stored_bytes(*tensor.type, *elements);
}

}  // namespace

std::string of_tensor(const LintTensor& tensor) {
  return fmt::format("tensor \"{}\"", excerpt(tensor.name));
}

void read_lint_file(LintFile& file, Findings& findings) {
  try {
    LintReader(file, findings).run();
  } catch (const Broken& broken) {
    findings.error("V-TRUNCATED", at_byte(broken.position), broken.what,
                   "damaged or cut short: fetch it again; what follows is not judged");
  }
}

}  // namespace vindex::organ
