// Owns the layout of a file and the writing of its tensors in order.
#include "writer.hpp"

#include "core/integers.hpp"
#include "gguf/header_stream.hpp"
#include "gguf/limits.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace vindex::gguf {
namespace {

constexpr std::uint64_t kPieceCopyBytes = std::uint64_t{1} << 20U;

[[noreturn]] void refuse_gguf_tensor(const char* id, const TensorLayout& tensor, const char* why) {
  throw FormatError(id, fmt::format("tensor \"{}\"", excerpt(tensor.name)), why);
}

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t alignment, const TensorLayout& tensor) {
  const auto rounded = checked_round_up(value, alignment);
  if (!rounded || !checked_count(*rounded)) {
    refuse_gguf_tensor("E-GGUF-LAYOUT", tensor, "the file would exceed 2^63 bytes");
  }
  return *rounded;
}

void write_keys(const KeySection& keys, HeaderStream& head) {
  for (const KeySection::Piece& piece : keys.pieces()) {
    append_bytes(head.buffer, piece.bytes);
    head.spill();
    for (std::uint64_t done = 0; done < piece.count;) {
      const std::uint64_t now = std::min(kPieceCopyBytes, piece.count - done);
      const std::size_t at = head.buffer.size();
      head.buffer.resize(at + static_cast<std::size_t>(now));
      piece.source->read(piece.offset + done, std::span(head.buffer).subspan(at));
      head.spill();
      done += now;
    }
  }
}

}  // namespace

std::uint64_t stored_bytes(const TensorLayout& tensor) {
  const auto& row = decode::element_type_row(tensor.type);
  if (row.ggml_id < 0) {
    refuse_gguf_tensor("E-GGUF-LAYOUT", tensor, "its type is none of ggml's");
  }
  if (tensor.dimensions.size() > kMostDimensions) {
    refuse_gguf_tensor("E-GGUF-LAYOUT", tensor, "more than 4 dimensions");
  }
  if (!fills_blocks(tensor.type, tensor.dimensions)) {
    refuse_gguf_tensor("E-GGUF-LAYOUT", tensor, "its rows do not fill whole blocks");
  }
  const auto elements = checked_product(tensor.dimensions);
  const auto bytes = elements ? decode::stored_bytes(tensor.type, *elements) : std::nullopt;
  if (!bytes || !checked_count(*bytes)) {
    refuse_gguf_tensor("E-GGUF-LAYOUT", tensor, "its size exceeds 2^63 bytes");
  }
  return *bytes;
}

void require_storable(const TensorLayout& tensor) {
  if (tensor.name.empty() || tensor.name.size() > kLongestTensorNameOfGgml) {
    refuse_gguf_tensor("E-GGUF-NAME", tensor,
                       "a name must have 1 to 63 bytes: ggml loads no other");
  }
  (void)stored_bytes(tensor);
}

Writer::Writer(AtomicFile& file, const KeySection& keys, std::vector<TensorLayout> tensors)
    : file_(file), tensors_(std::move(tensors)) {
  const std::uint64_t alignment = keys.alignment();
  HeaderStream head(file_);
  append(head.buffer, std::uint32_t{0x46554747});  // "GGUF"
  append(head.buffer, std::uint32_t{3});
  append(head.buffer, static_cast<std::uint64_t>(tensors_.size()));
  append(head.buffer, keys.count());
  write_keys(keys, head);
  write_table(alignment, head);
  header_bytes_ = head.position();
  const std::uint64_t data = *checked_round_up(header_bytes_, alignment);
  head.flush();
  for (std::uint64_t& start : offsets_) {
    start += data;
  }
  // What no tensor covers is padding, which reads as zero.
  end_of_file_ = data + end_;
  file_.resize(end_of_file_);
}

void Writer::write_table(std::uint64_t alignment, HeaderStream& head) {
  std::unordered_set<std::string_view> names;
  for (const TensorLayout& tensor : tensors_) {
    require_storable(tensor);
    if (!names.insert(tensor.name).second) {
      refuse_gguf_tensor("E-GGUF-NAME", tensor, "the name is there twice");
    }
    const std::uint64_t bytes = stored_bytes(tensor);
    append(head.buffer, std::string_view(tensor.name));
    append(head.buffer, static_cast<std::uint32_t>(tensor.dimensions.size()));
    for (const std::uint64_t dimension : tensor.dimensions) {
      append(head.buffer, dimension);
    }
    append(head.buffer, static_cast<std::uint32_t>(decode::element_type_row(tensor.type).ggml_id));
    append(head.buffer, end_);
    head.spill();
    offsets_.push_back(end_);
    data_bytes_ += bytes;  // at most end_
    const auto end = checked_add(end_, bytes);
    end_ = rounded_up(end.value_or(~std::uint64_t{0}), alignment, tensor);
  }
}

void Writer::write(std::size_t index, std::uint64_t offset, std::span<const std::byte> bytes) {
  file_.write(place(index, offset, bytes.size()), bytes);
}

std::uint64_t Writer::place(std::size_t index, std::uint64_t offset, std::uint64_t bytes) {
  const auto end = checked_add(offset, bytes);
  expects(index < tensors_.size() && end && *end <= stored_bytes(tensors_[index]),
          "Writer::place: a range within the tensor");
  written_ += bytes;
  return offsets_[index] + offset;
}

void Writer::finish() const {
  expects(written_ == data_bytes_, "Writer::finish: every byte written once");
}

}  // namespace vindex::gguf
