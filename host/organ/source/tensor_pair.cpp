// Owns choosing rows, and comparing bytes and decoded weights of a pair.
#include "tensor_pair.hpp"

#include "core/files/byte_source.hpp"
#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace vindex::organ {
namespace {

/// Rows longer than this are cut, so that a slab of one row stays small.
constexpr std::uint64_t kLongestRow = 1U << 20U;

/// How a tensor's weights are cut into rows: of ne[0], or shorter ones of whole blocks.
struct Rows {
  std::uint64_t count = 0, length = 0;
};

/// Both sides are cut alike, so in blocks of both.
Rows rows_of(const PlacedTensor& a, const PlacedTensor& b) {
  const std::uint64_t elements = element_count(a.dimensions);
  std::uint64_t length = a.dimensions.empty() ? 1 : a.dimensions.front();
  if (length > kLongestRow) {
    // Block sizes are powers of two, so the larger one is a multiple of the other.
    const auto block =
        static_cast<std::uint64_t>(std::max(decode::element_type_row(a.type).block_elements,
                                            decode::element_type_row(b.type).block_elements));
    std::uint64_t shorter = block;
    while (shorter * 2 <= kLongestRow && length % (shorter * 2) == 0) {
      shorter *= 2;
    }
    length = shorter;
  }
  return {elements / std::max<std::uint64_t>(length, 1), length};
}

/// Rows of a tensor in its file, all or chosen ones, read slab by slab.
class TensorInput final : public MatrixInput {
 public:
  /// `step` rows lie between two chosen ones; 1: all of `rows`.
  TensorInput(const PlacedTensor& tensor, const Rows& rows, std::vector<std::uint64_t> chosen)
      : tensor_(tensor),
        encoding_(decode::plain_encoding(tensor.type)),
        chosen_(std::move(chosen)),
        rows_(static_cast<std::int64_t>(chosen_.empty() ? rows.count : chosen_.size())),
        cols_(static_cast<std::int64_t>(rows.length)) {
    const auto bytes = decode::row_bytes(encoding_, rows.length);
    expects(bytes.has_value(), "a tensor whose rows fill whole blocks");
    row_bytes_ = *bytes;
  }

  const decode::Encoding& encoding() const override { return encoding_; }
  std::int64_t rows() const override { return rows_; }
  std::int64_t cols() const override { return cols_; }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 0; }
  bool in_memory() const override { return false; }

  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    expects(first >= 0 && count >= 0 && first <= rows_ - count, "TensorInput: rows inside");
    slab_.resize(static_cast<std::size_t>(count) * row_bytes_);
    if (chosen_.empty()) {
      tensor_.source->read(tensor_.offset + static_cast<std::uint64_t>(first) * row_bytes_, slab_);
    } else {
      std::vector<ReadRequest> requests;
      for (std::int64_t i = 0; i < count; ++i) {
        requests.push_back(
            {tensor_.offset + chosen_[static_cast<std::size_t>(first + i)] * row_bytes_,
             std::span(slab_).subspan(static_cast<std::size_t>(i) * row_bytes_, row_bytes_)});
      }
      tensor_.source->read_many(requests);
    }
    return {.encoding = &encoding_,
            .rows = count,
            .cols = cols_,
            .codes = slab_.data(),
            .row_stride_bytes = static_cast<std::int64_t>(row_bytes_)};
  }
  decode::EncodedMatrix column_slab(std::int64_t /*first*/, std::int64_t /*count*/) override {
    fail_expectation("TensorInput: cut by rows only");
  }

 private:
  const PlacedTensor& tensor_;
  decode::Encoding encoding_;
  std::vector<std::uint64_t> chosen_;
  std::int64_t rows_, cols_;
  std::uint64_t row_bytes_ = 0;
  std::vector<std::byte> slab_;
};

/// Evenly spaced rows with at most `most` weights together, at least one row; empty: all rows.
std::vector<std::uint64_t> chosen_rows(const Rows& rows, std::uint64_t most) {
  std::vector<std::uint64_t> chosen;
  const std::uint64_t count = std::max<std::uint64_t>(most / rows.length, 1);
  if (most == 0 || count >= rows.count) {
    return chosen;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    // Both factors are bounded by 2^20 and by a row count whose product with its bytes fits.
    const auto wide = static_cast<unsigned __int128>(i) * (rows.count - 1);
    chosen.push_back(static_cast<std::uint64_t>(wide / std::max<std::uint64_t>(count - 1, 1)));
  }
  return chosen;
}

}  // namespace

PlacedTensor placed(const GgufSource& model, std::size_t index) {
  const OrganTensor& tensor = model.tensors().at(index);
  return {tensor, model.files().at(tensor.file).source.get()};
}

PlacedTensor placed(const input::ModelFiles& model, const input::StoredTensor& tensor) {
  return {{{tensor.name, tensor.type, {tensor.shape.rbegin(), tensor.shape.rend()}},
           tensor.offset,
           tensor.bytes},
          model.shards.at(static_cast<std::size_t>(tensor.shard)).source.get()};
}

std::uint64_t element_count(std::span<const std::uint64_t> dimensions) {
  const auto product = checked_product(dimensions);
  expects(product.has_value(), "a tensor whose header was read");
  return *product;
}

bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  const auto at = [](std::span<const std::uint64_t> dimensions, std::size_t i) {
    return i < dimensions.size() ? dimensions[i] : 1;
  };
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (at(a, i) != at(b, i)) {
      return false;
    }
  }
  return true;
}

std::string shape_text(std::span<const std::uint64_t> dimensions) {
  return dimensions.empty() ? "a single number" : fmt::format("{}", fmt::join(dimensions, " x "));
}

bool same_bytes(const PlacedTensor& a, const PlacedTensor& b) {
  return a.type == b.type && a.bytes == b.bytes &&
         vindex::same_bytes(*a.source, a.offset, *b.source, b.offset, a.bytes);
}

PairSample compare_tensors(const PlacedTensor& a, const PlacedTensor& b, std::uint64_t most) {
  expects(same_shape(a.dimensions, b.dimensions), "compare_tensors: two tensors of one shape");
  PairSample sample;
  sample.of = element_count(a.dimensions);
  for (const PlacedTensor* tensor : {&a, &b}) {
    if (!decode::is_decodable(decode::plain_encoding(tensor->type))) {
      sample.report.status = MatrixStatus::kUnsupported;
      sample.report.reason =
          fmt::format("{} is not decoded", decode::element_type_row(tensor->type).name);
      return sample;
    }
  }
  if (sample.of == 0) {
    sample.report.status = MatrixStatus::kMeasured;
    sample.report.reason = "no weights";
    sample.report.same_bits = true;
    return sample;
  }
  const Rows rows = rows_of(a, b);
  const std::vector<std::uint64_t> chosen = chosen_rows(rows, most);
  TensorInput left(a, rows, chosen);
  TensorInput right(b, rows, chosen);
  sample.values = chosen.empty() ? sample.of : chosen.size() * rows.length;
  sample.report = statistics::compare_matrices(left, right);
  return sample;
}

}  // namespace vindex::organ
