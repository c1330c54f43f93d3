// Owns the header's text, the order of data, and the index of several shards.
#include "safetensors_writer.hpp"

#include "core/integers.hpp"
#include "core/json/json_document.hpp"
#include "core/text/utf8.hpp"
#include "input/safetensors/safetensors.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

namespace vindex::write {

namespace {

static_assert(std::endian::native == std::endian::little,
              "lengths are written as they lie in memory");

constexpr std::size_t kLargestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

[[noreturn]] void refuse_safetensors(const char* id, const std::string& name, const char* why) {
  throw FormatError(id, fmt::format("tensor \"{}\"", excerpt(name)), why);
}

void append_string(std::string& out, const std::string& text) {
  if (!is_utf8(text)) {
    refuse_safetensors("E-ST-NAME", text,
                       "this text is not UTF-8, which a safetensors header must be");
  }
  out += Json(text).dump();
}

void append_tensor(std::string& out, const SafetensorsTensor& tensor, std::uint64_t begin,
                   std::uint64_t end) {
  append_string(out, tensor.name);
  fmt::format_to(std::back_inserter(out), ":{{\"dtype\":\"{}\",\"shape\":[{}],",
                 decode::element_type_row(tensor.type).safetensors, fmt::join(tensor.shape, ","));
  fmt::format_to(std::back_inserter(out), "\"data_offsets\":[{},{}]}}", begin, end);
}

std::vector<std::size_t> data_order(const std::vector<SafetensorsTensor>& tensors,
                                    TensorOrder order) {
  std::vector<std::size_t> places(tensors.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (order == TensorOrder::kWidestFirst) {
    std::sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
      const auto& row_a = decode::element_type_row(tensors[a].type);
      const auto& row_b = decode::element_type_row(tensors[b].type);
      return row_a.block_bytes != row_b.block_bytes ? row_a.block_bytes > row_b.block_bytes
                                                    : tensors[a].name < tensors[b].name;
    });
  }
  return places;
}

}  // namespace

std::uint64_t stored_bytes(const SafetensorsTensor& tensor) {
  if (decode::element_type_row(tensor.type).safetensors.empty()) {
    refuse_safetensors("E-ST-LAYOUT", tensor.name, "its type is none of safetensors'");
  }
  std::vector<std::uint64_t> factors;
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 0) {
      refuse_safetensors("E-ST-LAYOUT", tensor.name, "a negative dimension");
    }
    factors.push_back(static_cast<std::uint64_t>(dimension));
  }
  const auto elements = checked_product(factors);
  const auto bytes = elements ? decode::stored_bytes(tensor.type, *elements) : std::nullopt;
  if (!bytes || !checked_count(*bytes)) {
    refuse_safetensors("E-ST-LAYOUT", tensor.name,
                       "its size exceeds 2^63 bytes or is not a whole number of them");
  }
  return *bytes;
}

SafetensorsWriter::SafetensorsWriter(AtomicFile& file, std::vector<SafetensorsTensor> tensors,
                                     const SafetensorsMetadata& metadata, TensorOrder order)
    : file_(file), tensors_(std::move(tensors)), offsets_(tensors_.size()) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      append_string(text, key);
      text += ':';
      append_string(text, value);
      text += ',';
    }
    text.back() = '}';
    text += ',';
  }
  std::unordered_set<std::string_view> names = {kMetadata};
  for (const std::size_t index : data_order(tensors_, order)) {
    const SafetensorsTensor& tensor = tensors_[index];
    if (!names.insert(tensor.name).second) {
      refuse_safetensors("E-ST-NAME", tensor.name, "the name is there twice, or the metadata's");
    }
    const auto end = checked_add(data_bytes_, stored_bytes(tensor));
    if (!end || !checked_count(*end)) {
      refuse_safetensors("E-ST-LAYOUT", tensor.name, "the file would exceed 2^63 bytes");
    }
    offsets_[index] = data_bytes_;
    append_tensor(text, tensor, data_bytes_, *end);
    text += ',';
    data_bytes_ = *end;
    if (text.size() > kLargestHeader) {
      refuse_safetensors("E-ST-LAYOUT", tensor.name, "the header would exceed 100,000,000 bytes");
    }
  }
  if (text.back() == ',') {
    text.pop_back();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  for (std::uint64_t& offset : offsets_) {
    offset += 8 + length;
  }
  file_.write(0, std::as_bytes(std::span(&length, 1)));
  file_.write(8, std::as_bytes(std::span(text)));
  file_.resize(8 + length + data_bytes_);
}

void SafetensorsWriter::write(std::size_t index, std::uint64_t offset,
                              std::span<const std::byte> bytes) {
  file_.write(place(index, offset, bytes.size()), bytes);
}

std::uint64_t SafetensorsWriter::place(std::size_t index, std::uint64_t offset,
                                       std::uint64_t bytes) {
  const auto end = checked_add(offset, bytes);
  expects(index < tensors_.size() && end && *end <= stored_bytes(tensors_[index]),
          "SafetensorsWriter::place: a range within the tensor");
  written_ += bytes;
  return offsets_[index] + offset;
}

void SafetensorsWriter::finish() const {
  expects(written_ == data_bytes_, "SafetensorsWriter::finish: every byte written once");
}

std::string safetensors_index_text(std::uint64_t total_bytes,
                                   const std::map<std::string, std::string>& file_of_tensor) {
  const Json index = {{"metadata", {{"total_size", total_bytes}}},
                      {"weight_map", Json(file_of_tensor)}};
  return index.dump(2) + "\n";
}

SafetensorsMetadata read_safetensors_metadata(ByteSource& source) {
  return input::read_safetensors_metadata(source);
}

}  // namespace vindex::write
