// Owns finding and reading parts, and putting a view together from them.
#include "stored_parts.hpp"

#include "core/digest.hpp"
#include "decode/bind_view.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/formats/decode_view.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <string>

namespace vindex::engine {

ByteSource& source_of(const input::ModelFiles& files, std::int32_t tensor) {
  const auto& stored = files.tensors.at(static_cast<std::size_t>(tensor));
  return *files.shards.at(static_cast<std::size_t>(stored.shard)).source;
}

model::MatrixRecord plain_record(const input::ModelFiles& files,
                                 const model::TensorRecord& tensor) {
  const input::StoredTensor& stored =
      files.tensors[static_cast<std::size_t>(tensor.stored.front())];
  model::MatrixRecord record;
  record.tensor = tensor.name;
  record.encoding = decode::plain_encoding(stored.type);
  record.cols = stored.shape.empty() ? 1 : stored.shape.back();
  record.rows = record.cols == 0 ? 0 : tensor.count / record.cols;
  record.codes = {.tensor = tensor.stored.front(), .offset = stored.offset, .bytes = stored.bytes};
  return record;
}

void read_part(SourceWatch& watch, const model::TensorPart& part, std::span<std::byte> into) {
  source_of(watch.files(), part.tensor).read(part.offset, into);
  watch.was_read(part.tensor);
}

decode::EncodedMatrix encoded_view(const model::MatrixRecord& matrix, const std::byte* codes,
                                   std::span<const std::span<const std::byte>> companion_bytes) {
  decode::EncodedMatrix view;
  view.encoding = &matrix.encoding;
  view.rows = matrix.stored_rows();
  view.cols = matrix.stored_cols();
  view.codes = codes;
  const auto stride = decode::code_stride(matrix.encoding, static_cast<std::uint64_t>(view.rows),
                                          static_cast<std::uint64_t>(view.cols));
  expects(stride.has_value(), "a matrix record whose row does not fit its encoding");
  view.row_stride_bytes = static_cast<std::int64_t>(*stride);
  for (std::size_t i = 0; i < matrix.companions.size(); ++i) {
    const model::CompanionPart& companion = matrix.companions[i];
    view.companions.at(i) = {.role = companion.role,
                             .type = companion.type,
                             .rows = companion.part.rows,
                             .cols = companion.part.cols,
                             .bytes = companion_bytes[i]};
  }
  view.companion_count = static_cast<std::int32_t>(matrix.companions.size());
  return view;
}

void check_companions(const model::MatrixRecord& matrix, const decode::EncodedMatrix& view) {
  if (const std::string problem = decode::companion_problem(view); !problem.empty()) {
    throw FormatError("E-COMPANION", printable(matrix.tensor), problem);
  }
}

std::uint64_t sign_flip_key(const model::MatrixRecord& matrix) {
  const Sha256Digest digest = sha256(fmt::format("{}#{}", matrix.tensor, matrix.slice));
  std::uint64_t key = 0;
  for (int i = 7; i >= 0; --i) {
    key = key << 8U | digest[static_cast<std::size_t>(i)];
  }
  return key;
}

}  // namespace vindex::engine
