// Owns whole tensors, slices of stacks, and companions of either.
#include "records.hpp"

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace vindex::model {

namespace {

using input::StoredTensor;

const StoredTensor& stored(const input::ModelFiles& files, std::int32_t tensor) {
  return files.tensors[static_cast<std::size_t>(tensor)];
}

TensorPart whole(const input::ModelFiles& files, std::int32_t tensor) {
  const StoredTensor& part = stored(files, tensor);
  TensorPart out;
  out.tensor = tensor;
  out.offset = part.offset;
  out.bytes = part.bytes;
  out.rows = part.shape.empty() ? 1 : part.shape[0];
  out.cols = 1;
  for (std::size_t i = 1; i < part.shape.size(); ++i) {
    // Only hand-made records overflow here; 0 columns fail every later size check.
    const auto cols = checked_multiply(static_cast<std::uint64_t>(out.cols),
                                       static_cast<std::uint64_t>(part.shape[i]));
    out.cols = cols ? checked_count(*cols).value_or(0) : 0;
  }
  return out;
}

/// Slice `slice` of `slices` equal parts of `tensor`, rows x cols each; nothing where the bytes
/// do not divide.
std::optional<TensorPart> slice_part(const input::ModelFiles& files, std::int32_t tensor,
                                     std::int64_t slice, std::int64_t slices) {
  TensorPart out = whole(files, tensor);
  const StoredTensor& part = stored(files, tensor);
  const auto count = static_cast<std::uint64_t>(slices);
  if (part.bytes % count != 0 || part.shape.empty() || part.shape[0] != slices) {
    return std::nullopt;
  }
  out.bytes = part.bytes / count;
  const auto distance = checked_multiply(out.bytes, static_cast<std::uint64_t>(slice));
  const auto offset = distance ? checked_add(part.offset, *distance) : std::nullopt;
  if (!offset) {
    return std::nullopt;
  }
  out.offset = *offset;
  out.rows = part.shape.size() > 1 ? part.shape[1] : 1;
  out.cols = part.shape.size() > 2 ? part.shape[2] : 1;
  return out;
}

}  // namespace

void set_parts(const input::ModelFiles& files, const LogicalTensor& logical, std::int64_t slice,
               std::int64_t slices, MatrixRecord& matrix) {
  const auto part = [&](std::int32_t tensor) {
    return slice < 0 ? std::optional(whole(files, tensor))
                     : slice_part(files, tensor, slice, slices);
  };
  const auto fail = [&](std::string why) {
    if (matrix.unsupported.empty()) {
      matrix.unsupported = std::move(why);
    }
  };
  if (const auto codes = part(logical.codes)) {
    matrix.codes = *codes;
  } else {
    fail(fmt::format("slices of {} are not of equal size", printable(logical.name)));
  }
  for (const BoundCompanion& bound : logical.companions) {
    // One number may serve every slice.
    const bool shared = (bound.role == decode::CompanionRole::kGlobalScale ||
                         logical.encoding.scheme == decode::Scheme::kFactoredBlocks) &&
                        element_count(stored(files, bound.tensor)) == 1;
    const auto companion = shared ? std::optional(whole(files, bound.tensor)) : part(bound.tensor);
    if (companion) {
      matrix.companions.push_back(
          {bound.role, bound.as.value_or(stored(files, bound.tensor).type), *companion});
    } else {
      fail(fmt::format("slices of {} are not of equal size",
                       printable(stored(files, bound.tensor).name)));
    }
  }
  if (!matrix.unsupported.empty()) {
    return;
  }
  if (!decode::is_decodable(matrix.encoding)) {
    fail(fmt::format("encoding not supported: {}", matrix.encoding.label));
    return;
  }
  const auto all =
      decode::code_bytes(matrix.encoding, static_cast<std::uint64_t>(matrix.stored_rows()),
                         static_cast<std::uint64_t>(matrix.stored_cols()));
  if (!all || *all != matrix.codes.bytes) {
    fail(fmt::format("size contradicts the shape: {} has {} bytes for {} x {} of {}",
                     printable(logical.name), matrix.codes.bytes, matrix.stored_rows(),
                     matrix.stored_cols(), matrix.encoding.label));
  }
}

}  // namespace vindex::model
