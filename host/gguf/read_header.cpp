// Owns the sink that refuses: every number of a header is checked where it is read.
#include "read_header.hpp"

#include "limits.hpp"
#include "tensor_table.hpp"
#include "walker.hpp"

#include "core/digest.hpp"
#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace vindex::gguf {

namespace {
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

/// What a pass over a header is for. Two are made over a file: the first validates everything and
/// keeps 24 bytes per key and tensor, the second builds the result, so that a refusal needs little
/// memory however many names came before it.
enum class Pass : std::uint8_t { kJudge, kKeepKeys, kKeepAll };

class HeaderSink final : public Sink {
 public:
  HeaderSink(ByteSource& source, Pass pass, std::function<void(std::uint64_t)> ask_for_room = {})
      : reader_(source), pass_(pass), ask_for_room_(std::move(ask_for_room)), table_(reader_) {}

  Header run() {
    try {
      walk(reader_, *this);
    } catch (const Truncated& cut) {
      reader_.fail(
          cut.position, "E-GGUF-TRUNCATED",
          fmt::format(
              "{} needs {} bytes, {} are left: the file is cut short or wrong, fetch it again",
              cut.field.in_errors, cut.bytes, cut.left));
    }
    return std::move(header_);
  }
  /// Some tensor could be a matrix.
  bool has_matrices() const { return has_matrices_; }

  void no_magic(std::uint64_t /*bytes*/) override {
    reader_.fail(0, "E-GGUF-MAGIC", "does not begin with the bytes \"GGUF\": no GGUF file");
  }

  bool version(std::uint32_t version, bool big_endian) override {
    if (version < 1 || version > 3) {
      reader_.fail(4, "E-GGUF-VERSION",
                   fmt::format("GGUF version {}{} is unknown (1, 2 and 3 are read)", version,
                               big_endian ? " (big-endian)" : ""));
    }
    header_.version = version;
    header_.big_endian = big_endian;
    return true;
  }

  bool counts(std::uint64_t tensors, std::uint64_t keys,
              std::uint64_t key_count_position) override {
    const std::uint64_t length_bytes = reader_.layout().length_bytes;
    const auto require = [&](std::uint64_t count, std::uint64_t most, std::uint64_t shortest,
                             std::uint64_t position, const char* what) {
      if (count > most || count > reader_.left() / (length_bytes + shortest)) {
        reader_.fail(position, "E-GGUF-COUNT",
                     fmt::format("{} {}: more than {}, or than the {} bytes left can hold", count,
                                 what, most, reader_.left()));
      }
    };
    require(tensors, kMostTensors, kShortestTensor, 8, "tensors");
    require(keys, kMostKeys, kShortestKey, key_count_position, "keys");
    if (ask_for_room_) {
      ask_for_room_(kRoomPerName * (tensors + keys));
    }
    header_.tensor_count = tensors;
    if (keeps()) {
      header_.keys.reserve(keys);
    }
    return true;
  }

  void length(Text text, std::uint64_t bytes) override {
    const bool is_name = text == Text::kKeyName || text == Text::kTensorName;
    const std::uint64_t most = is_name ? kLongestName : kLongestString;
    if (bytes > most || bytes > reader_.left()) {
      reader_.fail(
          reader_.position() - reader_.layout().length_bytes, "E-GGUF-STRING",
          fmt::format("{} of {} bytes: more than the limit of {}, or than the {} bytes left",
                      field_of(text).in_errors, bytes, most, reader_.left()));
    }
    if (text == Text::kArrayString) {  // fits, and was not passed over: it ends behind the limit
      reader_.fail(reader_.position(), "E-GGUF-LIMIT",
                   fmt::format("the header exceeds {} bytes", kLongestHeader));
    }
  }

  PassedOver passed_over() const override { return {kLongestString, kLongestHeader}; }

  void key_name(const WalkedKey& key) override {
    if (key.name_bytes == 0) {
      reader_.fail(key.position, "E-GGUF-KEY-EMPTY",
                   fmt::format("key {} has an empty name", key.index));
    }
    if (!keeps()) {
      key_names_.add(key.name, key.position);
    }
  }

  void key_type(const WalkedKey& key) override {
    require_known(key.type, "a key's value type", reader_.position() - 4);
  }

  void element_type(const WalkedKey& key) override {
    require_known(key.element_type, "an array's element type", key.value_offset);
    if (key.element_type == ValueType::kArray) {
      reader_.fail(key.value_offset, "E-GGUF-NESTED-ARRAY", "arrays of arrays are not supported");
    }
  }

  void array(const WalkedKey& key) override {
    const std::size_t length_bytes = reader_.layout().length_bytes;
    const bool strings = key.element_type == ValueType::kString;
    const std::size_t each = strings ? length_bytes : number_bytes(key.element_type);
    if (key.count > kLongestArray || key.count > reader_.left() / each) {
      reader_.fail(
          reader_.position() - length_bytes, "E-GGUF-ARRAY",
          fmt::format("an array of {} elements: more than {}, or than the {} bytes left hold",
                      key.count, kLongestArray, reader_.left()));
    }
    if (strings) {
      check_size();
    }
  }

  void key(WalkedKey& walked) override {
    if (walked.type == ValueType::kBool && walked.bits > 1) {
      reader_.fail(walked.value_offset, "E-GGUF-BOOL",
                   fmt::format("a bool of value {}", walked.bits));
    }
    check_size();
    note_alignment(walked);
    note_architecture(walked);
    if (!keeps()) {
      return;
    }
    Key& key = header_.keys.emplace_back();
    key.type = walked.type;
    key.element_type = walked.element_type;
    key.array_count = walked.count;
    key.value_offset = walked.value_offset;
    key.value_bytes = walked.value_bytes;
    if (key.type == ValueType::kString) {
      keep_string(walked, key);
    } else if (key.type == ValueType::kArray) {
      keep_integers(walked, key);
    } else {
      key.value = scalar_of(key.type, walked.bits);
    }
    reader_.seek(walked.value_offset + walked.value_bytes);
    key.name = std::move(walked.name);
  }

  bool keys_end() override {
    if (const auto twice = key_names_.duplicate()) {
      reader_.fail(*twice, "E-GGUF-DUPLICATE-KEY",
                   fmt::format("the key name \"{}\" occurs twice", reader_.string_at(*twice)));
    }
    if (pass_ == Pass::kKeepAll) {
      header_.tensors.reserve(header_.tensor_count);
    }
    return pass_ != Pass::kKeepKeys;
  }

  void tensor_name(const WalkedTensor& tensor) override { table_.judge_name(tensor); }
  void tensor_rank(const WalkedTensor& tensor, std::uint32_t rank) override {
    table_.judge_rank(tensor, rank);
  }
  void tensor_shape(const WalkedTensor& tensor) override { table_.judge_shape(tensor); }
  void tensor_type(const WalkedTensor& tensor) override { table_.judge_type(tensor); }

  void tensor(WalkedTensor& walked) override {
    Tensor tensor = table_.take(walked, header_.alignment);
    check_size();
    has_matrices_ = has_matrices_ || (tensor.dimensions.size() >= 2 && tensor.bytes > 0);
    if (keeps()) {
      header_.tensors.push_back(std::move(tensor));
    }
  }

  void tensors_end() override {
    const auto data = checked_round_up(reader_.position(), header_.alignment);
    expects(data.has_value(), "a header of at most 1 GiB rounds up to 64 bits");
    header_.data_offset = *data;
    for (Tensor& tensor : header_.tensors) {
      tensor.offset += header_.data_offset;  // fits: the first pass has compared it with the file
    }
    if (!keeps()) {
      table_.check(header_.data_offset, header_.alignment, header_.warnings);
    }
  }

 private:
  bool keeps() const { return pass_ != Pass::kJudge; }

  void require_known(ValueType type, const char* what, std::uint64_t position) const {
    if (!is_known(type)) {
      reader_.fail(position, "E-GGUF-KEY-TYPE",
                   fmt::format("{} {} does not exist", what, static_cast<std::uint32_t>(type)));
    }
  }

  void check_size() const {
    if (reader_.position() > kLongestHeader) {
      reader_.fail(reader_.position(), "E-GGUF-LIMIT",
                   fmt::format("the header exceeds {} bytes", kLongestHeader));
    }
  }

  void note_alignment(const WalkedKey& key) {
    if (key.name != "general.alignment") {
      return;
    }
    if (key.type != ValueType::kU32 || !std::has_single_bit(key.bits)) {
      reader_.fail(key.position, "E-GGUF-ALIGNMENT",
                   "general.alignment must be a u32 and a power of two");
    }
    header_.alignment = key.bits;
  }

  void note_architecture(const WalkedKey& key) {
    if (key.name != "general.architecture" || key.type != ValueType::kString) {
      return;
    }
    const std::uint64_t length_bytes = reader_.layout().length_bytes;
    reader_.seek(key.value_offset + length_bytes);
    const std::uint64_t length = key.value_bytes - length_bytes;
    table_.set_bitnet(reader_.view(std::min<std::uint64_t>(length, 6), {"the architecture"}) ==
                      "bitnet");
    reader_.seek(key.value_offset + key.value_bytes);
  }

  void keep_string(const WalkedKey& walked, Key& key) {
    const std::uint64_t length_bytes = reader_.layout().length_bytes;
    const std::uint64_t length = walked.value_bytes - length_bytes;
    key.value = std::string();
    if (kept_string_bytes_ + length <= kKeptStringBytes) {
      kept_string_bytes_ += length;
      reader_.seek(walked.value_offset + length_bytes);
      key.value = reader_.text(length, field_of(Text::kString));
    }
  }

  void keep_integers(const WalkedKey& walked, Key& key) {
    if (!is_integer(key.element_type) || walked.count > kMaxIntegers ||
        kept_integers_ + walked.count > kKeptIntegers) {
      return;
    }
    kept_integers_ += walked.count;
    const std::size_t each = number_bytes(key.element_type);
    reader_.seek(walked.value_offset + walked.value_bytes - walked.count * each);
    key.integers.reserve(walked.count);
    for (std::uint64_t i = 0; i < walked.count; ++i) {
      const Scalar number = scalar_of(key.element_type, reader_.number(each, {"an array"}));
      const auto* natural = std::get_if<std::uint64_t>(&number);
      if (natural != nullptr && !checked_count(*natural)) {
        key.integers.clear();
        return;
      }
      key.integers.push_back(natural != nullptr ? static_cast<std::int64_t>(*natural)
                                                : std::get<std::int64_t>(number));
    }
  }

  BufferedReader reader_;
  Pass pass_;
  std::function<void(std::uint64_t)> ask_for_room_;
  TensorTable table_;
  Header header_;
  FingerprintList key_names_;
  bool has_matrices_ = false;
  std::uint64_t kept_string_bytes_ = 0;
  std::uint64_t kept_integers_ = 0;
};

}  // namespace

Header read_header(ByteSource& source) { return read_header(source, {}); }

Header read_header(ByteSource& source, const std::function<void(std::uint64_t)>& ask_for_room,
                   KeepTensors keep) {
  HeaderSink first(source, Pass::kJudge, ask_for_room);
  Header judged = first.run();
  const bool with_tensors = keep == KeepTensors::kAll || first.has_matrices();
  Header header = HeaderSink(source, with_tensors ? Pass::kKeepAll : Pass::kKeepKeys).run();
  header.warnings = std::move(judged.warnings);
  header.data_offset = judged.data_offset;
  if (with_tensors) {
    header.header_sha256 = digest_at(source, 0, std::min(header.data_offset, source.size()));
  }
  return header;
}

}  // namespace vindex::gguf
