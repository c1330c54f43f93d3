// Owns matching edits to tensors, their bounds and overlaps, and refusals; and streaming a tensor's
// bytes with its replaced parts encoded on the way.
#include "edited_copy.hpp"

#include "core/integers.hpp"
#include "core/text/name_index.hpp"
#include "decode/encode/rewrite_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

namespace vindex::write {

namespace {

[[noreturn]] void refuse_edit(const std::string& tensor, const std::string& why) {
  throw UsageError("E-EDIT", fmt::format("tensor \"{}\": {}", excerpt(tensor), why));
}

std::size_t place_of(const NameIndex& names, const std::string& tensor) {
  const auto found = names.find(tensor);
  if (!found) {
    refuse_edit(tensor, "the model has none of this name");
  }
  return *found;
}

EditPart edit_part(const input::ModelFiles& model, const NameIndex& names, const NewBytes& edit) {
  EditPart part;
  part.tensor = place_of(names, edit.tensor);
  part.bytes = &edit;
  const std::uint64_t room = model.tensors[part.tensor].bytes;
  const auto end = checked_add(edit.offset, edit.bytes.size());
  if (!end || *end > room) {
    refuse_edit(edit.tensor, fmt::format("{} new bytes at {}, but it has {}", edit.bytes.size(),
                                         edit.offset, room));
  }
  part.begin = edit.offset;
  part.end = *end;
  return part;
}

EditPart edit_part(const input::ModelFiles& model, const NameIndex& names, const NewWeights& edit) {
  EditPart part;
  part.tensor = place_of(names, edit.tensor);
  part.weights = &edit;
  const input::StoredTensor& tensor = model.tensors[part.tensor];
  if (!decode::is_decodable(decode::plain_encoding(tensor.type))) {
    throw ConfigurationError(
        "E-ENCODE-TYPE",
        fmt::format("tensor \"{}\": {} stands for no weights by itself, give its bytes",
                    excerpt(edit.tensor), decode::element_type_row(tensor.type).name));
  }
  const TensorRows shape = rows_of(tensor);
  const auto count = static_cast<std::int64_t>(edit.values.size());
  const std::int64_t rows = shape.cols == 0 ? 0 : count / shape.cols;
  if (shape.cols == 0 || count % shape.cols != 0 || edit.first_row < 0 ||
      edit.first_row > shape.rows || rows > shape.rows - edit.first_row) {
    refuse_edit(edit.tensor,
                fmt::format("{} new weights from row {} on are not whole rows of {} x {}", count,
                            edit.first_row, shape.rows, shape.cols));
  }
  part.begin = static_cast<std::uint64_t>(edit.first_row) * shape.row_bytes;  // within the tensor
  part.end = part.begin + static_cast<std::uint64_t>(rows) * shape.row_bytes;
  return part;
}

}  // namespace

TensorRows rows_of(const input::StoredTensor& tensor) {
  TensorRows shape;
  shape.cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  shape.rows = shape.cols == 0 ? 0 : 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    shape.rows *= tensor.shape[i];  // the reader has checked that the product fits
  }
  const auto bytes = decode::row_bytes(decode::plain_encoding(tensor.type),
                                       static_cast<std::uint64_t>(shape.cols));
  expects(bytes.has_value(), "rows_of: a tensor whose rows fill whole blocks");
  shape.row_bytes = *bytes;
  return shape;
}

std::vector<EditPart> plan_edit(const input::ModelFiles& model, const ModelEdit& edit) {
  std::vector<EditPart> parts;
  if (edit.bytes.empty() && edit.weights.empty()) {
    return parts;
  }
  std::vector<std::string_view> stored;
  stored.reserve(model.tensors.size());
  for (const input::StoredTensor& tensor : model.tensors) {
    stored.emplace_back(tensor.name);
  }
  const NameIndex names(stored);
  for (const NewBytes& bytes : edit.bytes) {
    parts.push_back(edit_part(model, names, bytes));
  }
  for (const NewWeights& weights : edit.weights) {
    parts.push_back(edit_part(model, names, weights));
  }
  std::erase_if(parts, [](const EditPart& part) { return part.begin == part.end; });
  std::sort(parts.begin(), parts.end(), [](const EditPart& a, const EditPart& b) {
    return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin);
  });
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].tensor == parts[i - 1].tensor && parts[i].begin < parts[i - 1].end) {
      refuse_edit(model.tensors[parts[i].tensor].name,
                  fmt::format("two replacements overlap from byte {} on", parts[i].begin));
    }
  }
  return parts;
}

namespace {

constexpr std::uint64_t kTensorCopyBytes = std::uint64_t{4} << 20U;
/// Weights decoded and encoded at a time: 8 MiB of float32.
constexpr std::int64_t kChunkWeights = std::int64_t{2} << 20U;

void copy_range(ByteSource& source, std::uint64_t offset, std::uint64_t begin, std::uint64_t end,
                std::vector<std::byte>& buffer, const TensorSink& sink) {
  buffer.resize(std::max<std::size_t>(buffer.size(), std::min(kTensorCopyBytes, end - begin)));
  while (begin < end) {
    const auto now = static_cast<std::size_t>(std::min(kTensorCopyBytes, end - begin));
    source.read(offset + begin, std::span(buffer).first(now));
    sink(begin, std::span<const std::byte>(buffer).first(now));
    begin += now;
  }
}

}  // namespace

TensorCopy::TensorCopy(const input::ModelFiles& model, const std::vector<EditPart>& parts,
                       std::stop_token stop)
    : model_(model), parts_(parts), stop_(std::move(stop)) {}

void TensorCopy::run(std::size_t index, const TensorSink& to) {
  const TensorSink sink = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    throw_if_stopped(stop_);
    to(offset, bytes);
  };
  const input::StoredTensor& tensor = model_.tensors[index];
  auto part = std::lower_bound(
      parts_.begin(), parts_.end(), index,
      [](const EditPart& candidate, std::size_t wanted) { return candidate.tensor < wanted; });
  std::uint64_t position = 0;
  for (; part != parts_.end() && part->tensor == index; ++part) {
    stream(tensor, position, part->begin, sink);
    if (part->bytes != nullptr) {
      sink(part->begin, part->bytes->bytes);
    } else {
      encode(tensor, *part->weights, sink);
    }
    position = part->end;
  }
  stream(tensor, position, tensor.bytes, sink);
}

void TensorCopy::stream(const input::StoredTensor& tensor, std::uint64_t begin, std::uint64_t end,
                        const TensorSink& sink) {
  ByteSource& source = *model_.shards[static_cast<std::size_t>(tensor.shard)].source;
  copy_range(source, tensor.offset, begin, end, buffer_, sink);
}

void TensorCopy::encode(const input::StoredTensor& tensor, const NewWeights& weights,
                        const TensorSink& sink) {
  const TensorRows shape = rows_of(tensor);
  const decode::Encoding encoding = decode::plain_encoding(tensor.type);
  const std::string where = "tensor \"" + excerpt(tensor.name) + "\"";
  ByteSource& source = *model_.shards[static_cast<std::size_t>(tensor.shard)].source;
  const auto rows = static_cast<std::int64_t>(weights.values.size()) / shape.cols;
  const std::int64_t step = std::max<std::int64_t>(1, kChunkWeights / shape.cols);
  for (std::int64_t done = 0; done < rows; done += step) {
    const std::int64_t now = std::min(step, rows - done);
    const std::uint64_t begin =
        static_cast<std::uint64_t>(weights.first_row + done) * shape.row_bytes;
    const auto bytes = static_cast<std::size_t>(static_cast<std::uint64_t>(now) * shape.row_bytes);
    buffer_.resize(std::max(buffer_.size(), bytes));
    encoded_.resize(bytes);
    source.read(tensor.offset + begin, std::span(buffer_).first(bytes));
    decode::EncodedMatrix original;
    original.encoding = &encoding;
    original.rows = now;
    original.cols = shape.cols;
    original.first_row = weights.first_row + done;
    original.codes = buffer_.data();
    original.row_stride_bytes = static_cast<std::int64_t>(shape.row_bytes);
    counts_.add(decode::rewrite_matrix(original, weights.values.data() + done * shape.cols,
                                       shape.cols, encoded_, {}, where));
    sink(begin, encoded_);
  }
}

void copy_source(ByteSource& source, const TensorSink& sink) {
  std::vector<std::byte> buffer;
  copy_range(source, 0, 0, source.size(), buffer, sink);
}

}  // namespace vindex::write
