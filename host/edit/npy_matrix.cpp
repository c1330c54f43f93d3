#include "npy_matrix.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/shard/npy.hpp>

#include <fmt/format.h>

#include <cstring>

namespace vindex::edit {

Matrix read_npy_matrix(const std::string& path, std::uint64_t most_bytes) {
  const auto source = shard::open_file_source(path);
  const shard::NpyHeader header = shard::read_npy_header(*source);
  if (header.shape.empty() || header.shape.size() > 2 || header.bytes == 0) {
    throw FormatError("E-EDIT-SHAPE", source->name(),
                      fmt::format("has {} dimensions of {} bytes; a vector or a matrix is wanted",
                                  header.shape.size(), header.bytes));
  }
  Matrix matrix;
  matrix.rows = header.shape[0];
  matrix.cols = header.shape.size() == 2 ? header.shape[1] : 1;
  const auto count =
      static_cast<std::uint64_t>(matrix.rows) * static_cast<std::uint64_t>(matrix.cols);
  if (count > most_bytes / 16) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("{}: {} x {} numbers take {} MiB here; raise --ram-budget",
                                source->name(), matrix.rows, matrix.cols, count / (1U << 16U)));
  }
  std::vector<std::byte> bytes(header.bytes);
  source->read(header.offset, bytes);
  matrix.values.resize(count);
  if (header.type == decode::ElementType::kF64) {
    std::memcpy(matrix.values.data(), bytes.data(), bytes.size());
    return matrix;
  }
  const decode::Encoding encoding = decode::plain_encoding(header.type);
  if (!decode::is_decodable(encoding)) {
    throw FormatError(
        "E-EDIT-SHAPE", source->name(),
        fmt::format("holds {}; save it as float32", decode::element_type_row(header.type).name));
  }
  decode::EncodedMatrix view;
  view.encoding = &encoding;
  view.rows = matrix.rows;
  view.cols = matrix.cols;
  view.codes = bytes.data();
  view.row_stride_bytes = static_cast<std::int64_t>(header.bytes) / matrix.rows;
  std::vector<float> values(count);
  decode::decode_matrix(view, values.data(), matrix.cols);
  matrix.values.assign(values.begin(), values.end());
  return matrix;
}

}  // namespace vindex::edit
