#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>
#include <vindex/synth/gguf_writer.hpp>

#include <bit>
#include <optional>
#include <type_traits>
#include <utility>

namespace vindex::synth {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

constexpr std::uint64_t kAlignment = 32;
constexpr std::size_t kMaxNameBytes = 63;
constexpr std::size_t kMaxDimensions = 4;

// Numbers of value types in the file.
enum : std::uint32_t {
  kTypeU16 = 2,
  kTypeU32 = 4,
  kTypeI32 = 5,
  kTypeF32 = 6,
  kTypeBool = 7,
  kTypeString = 8,
  kTypeArray = 9,
};

template <typename Number>
void append(std::vector<std::byte>& out, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  const auto bytes = std::as_bytes(std::span(&number, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::uint64_t padded(std::uint64_t bytes) {
  const auto rounded = checked_round_up(bytes, kAlignment);
  expects(rounded.has_value(), "GgufWriter: tensors within 64 bits");
  return *rounded;
}

}  // namespace

void GgufKeys::begin(std::string_view name, std::uint32_t type) {
  expects(!name.empty() && names_.emplace(name).second, "GgufKeys: names that are new");
  append(bytes_, name);
  append(bytes_, type);
}

void GgufKeys::add_u16(std::string_view name, std::uint16_t value) {
  begin(name, kTypeU16);
  append(bytes_, value);
}

void GgufKeys::add_u32(std::string_view name, std::uint32_t value) {
  begin(name, kTypeU32);
  append(bytes_, value);
}

void GgufKeys::add_i32(std::string_view name, std::int32_t value) {
  begin(name, kTypeI32);
  append(bytes_, value);
}

void GgufKeys::add_f32(std::string_view name, float value) {
  begin(name, kTypeF32);
  append(bytes_, value);
}

void GgufKeys::add_bool(std::string_view name, bool value) {
  begin(name, kTypeBool);
  append(bytes_, static_cast<std::uint8_t>(value ? 1 : 0));
}

void GgufKeys::add_string(std::string_view name, std::string_view value) {
  begin(name, kTypeString);
  append(bytes_, value);
}

void GgufKeys::add_strings(std::string_view name, std::span<const std::string> values) {
  begin(name, kTypeArray);
  append(bytes_, std::uint32_t{kTypeString});
  append(bytes_, static_cast<std::uint64_t>(values.size()));
  for (const std::string& value : values) {
    append(bytes_, std::string_view(value));
  }
}

void GgufKeys::add_i32s(std::string_view name, std::span<const std::int32_t> values) {
  begin(name, kTypeArray);
  append(bytes_, std::uint32_t{kTypeI32});
  append(bytes_, static_cast<std::uint64_t>(values.size()));
  for (const std::int32_t value : values) {
    append(bytes_, value);
  }
}

void GgufKeys::add_raw(std::string_view name, std::uint32_t type,
                       std::span<const std::byte> value) {
  begin(name, type);
  bytes_.insert(bytes_.end(), value.begin(), value.end());
}

std::uint64_t stored_bytes(const GgufTensorLayout& tensor) {
  const auto& row = decode::element_type_row(tensor.type);
  expects(row.ggml_id >= 0, "stored_bytes: a type that ggml has");
  expects(!tensor.dimensions.empty() && tensor.dimensions.size() <= kMaxDimensions,
          "stored_bytes: one to four dimensions");
  expects(tensor.dimensions[0] % static_cast<std::uint64_t>(row.block_elements) == 0,
          "stored_bytes: rows of whole blocks");
  const auto elements = checked_product(tensor.dimensions);
  const auto bytes = elements ? decode::stored_bytes(tensor.type, *elements) : std::nullopt;
  expects(bytes.has_value(), "stored_bytes: a tensor within 64 bits");
  return *bytes;
}

GgufWriter::GgufWriter(OutputFile& file, const GgufKeys& keys,
                       std::vector<GgufTensorLayout> tensors)
    : file_(file), tensors_(std::move(tensors)) {
  std::vector<std::byte> header;
  append(header, std::uint32_t{0x46554747});  // "GGUF"
  append(header, std::uint32_t{3});
  append(header, static_cast<std::uint64_t>(tensors_.size()));
  append(header, keys.count());
  header.insert(header.end(), keys.bytes().begin(), keys.bytes().end());

  std::uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const GgufTensorLayout& tensor : tensors_) {
    expects(!tensor.name.empty() && tensor.name.size() <= kMaxNameBytes &&
                names.insert(tensor.name).second,
            "GgufWriter: names of 1 to 63 bytes that differ");
    const std::uint64_t bytes = stored_bytes(tensor);
    append(header, std::string_view(tensor.name));
    append(header, static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t dimension : tensor.dimensions) {
      append(header, dimension);
    }
    append(header, static_cast<std::uint32_t>(decode::element_type_row(tensor.type).ggml_id));
    append(header, offset);
    offsets_.push_back(offset);
    data_bytes_ += bytes;
    const auto next = checked_add(offset, padded(bytes));
    expects(next.has_value(), "GgufWriter: tensors within 64 bits");
    offset = *next;
  }
  header.resize(padded(header.size()));
  for (std::uint64_t& start : offsets_) {
    start += header.size();
  }
  file_.write(0, header);
  // What no tensor covers is padding, which reads as zero.
  file_.resize(header.size() + offset);
}

void GgufWriter::write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto end = checked_add(offset, bytes.size());
  expects(index < tensors_.size() && end && *end <= stored_bytes(tensors_[index]),
          "GgufWriter::write: a range within the tensor");
  file_.write(offsets_[index] + offset, bytes);
  written_ += bytes.size();
}

void GgufWriter::finish() const {
  expects(written_ == data_bytes_, "GgufWriter::finish: every byte written once");
}

}  // namespace vindex::synth
