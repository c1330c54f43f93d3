// Owns matching edits to tensors, their bounds and overlaps, and refusals.
#include "edit_plan.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/core/name_index.hpp>

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

EditPart edit_part(const shard::ModelFiles& model, const NameIndex& names, const NewBytes& edit) {
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

EditPart edit_part(const shard::ModelFiles& model, const NameIndex& names, const NewWeights& edit) {
  EditPart part;
  part.tensor = place_of(names, edit.tensor);
  part.weights = &edit;
  const shard::StoredTensor& tensor = model.tensors[part.tensor];
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

TensorRows rows_of(const shard::StoredTensor& tensor) {
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

std::vector<EditPart> plan_edit(const shard::ModelFiles& model, const ModelEdit& edit) {
  std::vector<EditPart> parts;
  if (edit.bytes.empty() && edit.weights.empty()) {
    return parts;
  }
  std::vector<std::string_view> stored;
  stored.reserve(model.tensors.size());
  for (const shard::StoredTensor& tensor : model.tensors) {
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

}  // namespace vindex::write
