// Owns judging entries, and finding overlaps, gaps and doubled names.
#include "tensor_table.hpp"

#include "limits.hpp"
#include "refused_types.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>

namespace vindex::gguf {

namespace {
constexpr std::uint32_t kMxfp4Id = 39;
/// Looking at paddings costs a read each; a sample suffices for a warning.
constexpr std::size_t kMaxPaddingsRead = 4096;

/// A hash independent of the library's. Eight bytes at a time: a header may hold a gibibyte of
/// names. Each step is a bijection, so names that differ in one word never collide.
std::uint64_t second_hash(std::string_view name) {
  std::uint64_t hash = name.size();
  while (!name.empty()) {
    const std::size_t bytes = std::min<std::size_t>(8, name.size());
    std::uint64_t word = 0;
    std::memcpy(&word, name.data(), bytes);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
    name.remove_prefix(bytes);
  }
  return hash;
}
}  // namespace

void FingerprintList::add(std::string_view name, std::uint64_t position) {
  entries_.push_back({std::hash<std::string_view>()(name), second_hash(name), position});
}

std::optional<std::uint64_t> FingerprintList::duplicate() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.first_hash, a.second_hash, a.position) <
           std::tie(b.first_hash, b.second_hash, b.position);
  });
  std::optional<std::uint64_t> found;
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    const bool same = entries_[i].first_hash == entries_[i - 1].first_hash &&
                      entries_[i].second_hash == entries_[i - 1].second_hash;
    if (same && (!found || entries_[i].position < *found)) {
      found = entries_[i].position;
    }
  }
  return found;
}

void TensorTable::fail(const WalkedTensor& tensor, std::uint64_t position, const char* id,
                       const std::string& why) const {
  reader_.fail(position, id,
               fmt::format("tensor \"{}\": {}", printable(tensor.name.substr(0, 200)), why));
}

void TensorTable::judge_name(const WalkedTensor& tensor) {
  if (tensor.name_bytes == 0) {
    reader_.fail(tensor.position, "E-GGUF-TENSOR-EMPTY",
                 fmt::format("tensor {} has an empty name", tensor.index));
  }
  names_.add(tensor.name, tensor.position);
}

void TensorTable::judge_rank(const WalkedTensor& tensor, std::uint32_t rank) const {
  if (rank > kMostDimensions) {
    fail(tensor, reader_.position() - 4, "E-GGUF-DIMENSIONS",
         fmt::format("{} dimensions, at most {} exist", rank, kMostDimensions));
  }
}

/// Where the dimensions lie, which end `behind` bytes before the reader.
std::uint64_t TensorTable::shape_position(const WalkedTensor& tensor, std::uint64_t behind) const {
  return reader_.position() - behind - tensor.dimensions.size() * reader_.layout().length_bytes;
}

void TensorTable::judge_shape(const WalkedTensor& tensor) const {
  if (!weight_count(tensor.dimensions)) {
    fail(tensor, shape_position(tensor, 0), "E-GGUF-SHAPE",
         "the product of the dimensions exceeds 2^63-1");
  }
}

void TensorTable::judge_type(const WalkedTensor& tensor) {
  const bool is_mxfp4 = tensor.type_id == kMxfp4Id;
  const auto type = decode::element_type_of_ggml(tensor.type_id);
  if (!type || (bitnet_ && is_mxfp4)) {
    fail(tensor, reader_.position() - 4, "E-GGUF-TYPE",
         fmt::format("type {} is {}", tensor.type_id,
                     describe_refused_type(tensor.type_id, bitnet_)));
  }
  mxfp4_ = mxfp4_ || is_mxfp4;
  const std::uint64_t shape = shape_position(tensor, 4);
  if (!fills_blocks(*type, tensor.dimensions)) {
    const decode::ElementTypeRow& row = decode::element_type_row(*type);
    fail(tensor, shape, "E-GGUF-BLOCK",
         fmt::format("its first dimension {} is not a multiple of the {} weights "
                     "in a block of {}",
                     tensor.dimensions.empty() ? 1 : tensor.dimensions.front(), row.block_elements,
                     row.name));
  }
  if (!decode::stored_bytes(*type, *weight_count(tensor.dimensions))) {
    fail(tensor, shape, "E-GGUF-SHAPE", "its size in bytes exceeds 64 bits");
  }
}

Tensor TensorTable::take(WalkedTensor& tensor, std::uint64_t alignment) {
  if (tensor.offset % alignment != 0) {
    fail(tensor, reader_.position() - 8, "E-GGUF-OFFSET",
         fmt::format("offset {} is not a multiple of the alignment {}", tensor.offset, alignment));
  }
  const decode::ElementType type = *decode::element_type_of_ggml(tensor.type_id);
  const std::uint64_t bytes = *decode::stored_bytes(type, *weight_count(tensor.dimensions));
  extents_.push_back({tensor.offset, bytes, tensor.position});
  return {{std::move(tensor.name), type, std::move(tensor.dimensions)}, tensor.offset, bytes};
}

const char* TensorTable::fork_hint() const {
  return mxfp4_ ? " (or type 39 is TL2 of the fork bitnet.cpp here, not MXFP4: the sizes disagree)"
                : "";
}

void TensorTable::warn(std::vector<Warning>& warnings, const char* id,
                       const std::string& text) const {
  warnings.push_back({id, fmt::format("{}: {}", reader_.name(), text)});
}

void TensorTable::check(std::uint64_t data_offset, std::uint64_t alignment,
                        std::vector<Warning>& warnings) {
  if (const auto twice = names_.duplicate()) {
    reader_.fail(*twice, "E-GGUF-DUPLICATE-TENSOR",
                 fmt::format("the tensor name \"{}\" occurs twice", reader_.string_at(*twice)));
  }
  check_range(data_offset);
  check_layout(data_offset, alignment, warnings);
}

void TensorTable::check_range(std::uint64_t data_offset) const {
  // A file may end before the padding that precedes its data if there is none.
  const std::uint64_t end_of_file = std::max(reader_.size(), data_offset);
  for (const Extent& extent : extents_) {
    const auto begin = checked_add(data_offset, extent.begin);
    const auto end = begin ? checked_add(*begin, extent.bytes) : std::nullopt;
    if (!end || *end > end_of_file) {
      reader_.fail(
          extent.entry, "E-GGUF-RANGE",
          fmt::format("this tensor's {} bytes at offset {} do not lie within the file of {} "
                      "bytes: cut short or wrong, fetch it again{}",
                      extent.bytes, extent.begin, reader_.size(), fork_hint()));
    }
  }
}

void TensorTable::check_layout(std::uint64_t data_offset, std::uint64_t alignment,
                               std::vector<Warning>& warnings) {
  const auto by_offset = [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.bytes) < std::tie(b.begin, b.bytes);
  };
  if (!std::is_sorted(extents_.begin(), extents_.end(), by_offset)) {
    warn(warnings, "W-GGUF-ORDER", "tensor data are not in the order of the table");
    std::sort(extents_.begin(), extents_.end(), by_offset);
  }
  const std::uint64_t header_end = reader_.position();
  std::vector<Extent> paddings;
  if (const std::uint64_t until = std::min(data_offset, reader_.size()); until > header_end) {
    paddings.push_back({header_end, until - header_end, 0});
  }
  std::uint64_t end = 0;
  std::uint64_t gaps = 0;
  for (const Extent& extent : extents_) {
    if (extent.begin < end && extent.bytes > 0) {
      reader_.fail(
          extent.entry, "E-GGUF-OVERLAP",
          fmt::format("this tensor's data at offset {} overlap those of another, which end "
                      "at {}{}",
                      extent.begin, end, fork_hint()));
    }
    const std::uint64_t padded = *checked_round_up(end, alignment);
    gaps += extent.begin > padded ? 1 : 0;
    if (extent.begin >= padded && padded > end && paddings.size() < kMaxPaddingsRead) {
      paddings.push_back({data_offset + end, padded - end, 0});
    }
    end = std::max(end, extent.begin + extent.bytes);
  }
  if (gaps > 0) {
    warn(warnings, "W-GGUF-GAP", fmt::format("{} gaps between tensor data", gaps));
  }
  const std::uint64_t data_end = data_offset + end;
  const std::uint64_t padded_end = data_offset + *checked_round_up(end, alignment);
  if (!extents_.empty() && reader_.size() < padded_end) {
    warn(warnings, "W-GGUF-FINAL-PADDING", "the padding after the last tensor is missing");
  } else if (padded_end > data_end) {
    paddings.push_back({data_end, padded_end - data_end, 0});
  }
  if (reader_.size() > padded_end) {
    warn(warnings, "W-GGUF-TRAILING",
         fmt::format("{} bytes follow the last tensor", reader_.size() - padded_end));
  }
  check_padding(paddings, warnings);
}

void TensorTable::check_padding(const std::vector<Extent>& paddings,
                                std::vector<Warning>& warnings) {
  for (const Extent& padding : paddings) {
    reader_.seek(padding.begin);
    // The alignment may be as large as 2^31: look at the beginning only.
    const std::uint64_t bytes = std::min({padding.bytes, reader_.left(), std::uint64_t{4096}});
    const std::string content = reader_.text(bytes, {"padding"});
    if (content.find_first_not_of('\0') != std::string::npos) {
      warn(warnings, "W-GGUF-PADDING",
           fmt::format("padding at byte {} is not zero", padding.begin));
      return;
    }
  }
}

}  // namespace vindex::gguf
