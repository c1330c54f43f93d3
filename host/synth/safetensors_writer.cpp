#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>
#include <vindex/synth/safetensors_writer.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

namespace vindex::synth {
namespace {

static_assert(std::endian::native == std::endian::little,
              "lengths are written as they lie in memory");

}  // namespace

std::uint64_t stored_bytes(const SafetensorsTensor& tensor) {
  std::vector<std::uint64_t> factors;
  for (const std::int64_t dimension : tensor.shape) {
    expects(dimension >= 0, "stored_bytes: dimensions of zero or more");
    factors.push_back(static_cast<std::uint64_t>(dimension));
  }
  const auto elements = checked_product(factors);
  const auto bytes = elements ? decode::stored_bytes(tensor.type, *elements) : std::nullopt;
  expects(bytes && !decode::element_type_row(tensor.type).safetensors.empty(),
          "stored_bytes: a shape that fits and a type that safetensors has");
  return *bytes;
}

SafetensorsWriter::SafetensorsWriter(OutputFile& file, std::vector<SafetensorsTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file), tensors_(std::move(tensors)), offsets_(tensors_.size()) {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto& row_a = decode::element_type_row(tensors_[a].type);
    const auto& row_b = decode::element_type_row(tensors_[b].type);
    return row_a.block_bytes != row_b.block_bytes ? row_a.block_bytes > row_b.block_bytes
                                                  : tensors_[a].name < tensors_[b].name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::set<std::string> names;
  for (const std::size_t index : order) {
    const SafetensorsTensor& tensor = tensors_[index];
    expects(names.insert(tensor.name).second, "SafetensorsWriter: names that differ");
    const auto end = checked_add(data_bytes_, stored_bytes(tensor));
    expects(end.has_value(), "SafetensorsWriter: tensors within 64 bits");
    offsets_[index] = data_bytes_;
    header[tensor.name] = {{"dtype", decode::element_type_row(tensor.type).safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {data_bytes_, *end}}};
    data_bytes_ = *end;
  }
  std::string text = header.dump();
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
  const auto end = checked_add(offset, bytes.size());
  expects(index < tensors_.size() && end && *end <= stored_bytes(tensors_[index]),
          "SafetensorsWriter::write: a range within the tensor");
  file_.write(offsets_[index] + offset, bytes);
  written_ += bytes.size();
}

void SafetensorsWriter::finish() const {
  expects(written_ == data_bytes_, "SafetensorsWriter::finish: every byte written once");
}

}  // namespace vindex::synth
