// Owns what every scheme needs of its companions before its decoder may run.
#include "bind_view.hpp"

#include "encoding_table.hpp"

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/formats/decode_view.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace vindex::decode {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

// Fills a view from the companions of a matrix.
class Binder {
 public:
  Binder(const EncodedMatrix& matrix, DecodeView& view) : matrix_(matrix), view_(view) {}

  // The companion `role`, at least `count` elements of it. All bytes that its shape says are there.
  const Companion& need(CompanionRole role, std::int64_t count) {
    const Companion* companion = matrix_.companion(role);
    expects(companion != nullptr, "decode_view: a companion that the scheme needs");
    expects(companion->rows >= 0 && companion->cols >= 0, "decode_view: counts of a companion");
    const auto elements = checked_multiply(static_cast<std::uint64_t>(companion->rows),
                                           static_cast<std::uint64_t>(companion->cols));
    const auto bytes = elements ? stored_bytes(companion->type, *elements) : std::nullopt;
    expects(bytes && *bytes <= companion->bytes.size(), "decode_view: all bytes of a companion");
    expects(*elements >= static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)),
            "decode_view: enough elements of a companion");
    view_.companions[role_index(role)] =
        reinterpret_cast<const std::uint8_t*>(companion->bytes.data());
    return *companion;
  }

  const Companion& need(CompanionRole role, std::int64_t count, ElementType type) {
    const Companion& companion = need(role, count);
    expects(companion.type == type, "decode_view: a companion of the type that the scheme says");
    return companion;
  }

  bool has(CompanionRole role) const { return matrix_.companion(role) != nullptr; }

  const Companion& scales(std::int64_t count) {
    const Companion& scale = need(CompanionRole::kScale, count);
    expects(is_scale_type(scale.type), "decode_view: scales of a known type");
    view_.scale_type = scale.type;
    view_.scale_rows = scale.rows;
    view_.scale_cols = scale.cols;
    return scale;
  }

  // Scales [rows / block_rows, cols / block_cols]. With group indices any column may have any.
  const Companion& scales_of_blocks() {
    const Companion& scale = scales(0);
    if (has(CompanionRole::kGroupIndex)) {
      need(CompanionRole::kGroupIndex, last_col() + 1, ElementType::kI32);
    }
    expects(empty() || (last_row() / view_.block_rows < scale.rows &&
                        last_col() / view_.block_cols < scale.cols),
            "decode_view: a scale for every block");
    return scale;
  }

  const Companion& zeros(std::int64_t count) {
    const Companion& zero = need(CompanionRole::kZeroPoint, count);
    view_.zero_type = zero.type;
    view_.zero_cols = zero.cols;
    return zero;
  }

  bool empty() const { return view_.rows == 0 || view_.cols == 0; }
  std::int64_t last_row() const { return view_.first_row + view_.rows - 1; }
  std::int64_t last_col() const { return view_.first_col + view_.cols - 1; }

 private:
  const EncodedMatrix& matrix_;
  DecodeView& view_;
};

// Words of 32 bits that `codes` codes fill, at most.
std::int64_t words(std::int64_t codes, const Encoding& encoding) {
  if (encoding.scheme == Scheme::kPackedIntPadded) {
    const std::int64_t per_word = 32 / encoding.bits;
    return ceil_divide(codes, per_word);
  }
  return ceil_divide(codes * encoding.bits, 32);
}

void bind_packed_int(const Encoding& encoding, Binder& binder) {
  const Companion& scale = binder.scales_of_blocks();
  if (binder.has(CompanionRole::kZeroPoint)) {
    const Companion& zero = binder.zeros(0);
    expects(zero.type == ElementType::kI32 && zero.cols == scale.cols &&
                zero.rows >= words(binder.last_row() + 1, encoding),
            "decode_view: zero points for every scale");
  }
}

void bind_transposed(const Encoding& encoding, const DecodeView& view, Binder& binder) {
  const Companion& scale = binder.scales(0);
  if (binder.has(CompanionRole::kGroupIndex)) {
    binder.need(CompanionRole::kGroupIndex, binder.last_col() + 1, ElementType::kI32);
  } else {
    expects(binder.empty() || binder.last_col() / view.block_cols < scale.rows,
            "decode_view: a scale for every group");
  }
  const Companion& zero = binder.zeros(0);
  expects(scale.cols > binder.last_row() && zero.type == ElementType::kI32 &&
              zero.rows == scale.rows && zero.cols >= words(binder.last_row() + 1, encoding),
          "decode_view: a scale and a zero point for every row");
}

void bind_lookup(const Encoding& encoding, Binder& binder) {
  expects(encoding.block_cols > 0 && encoding.whole_cols > 0, "decode_view: a block size");
  const std::int64_t weights = encoding.whole_rows * encoding.whole_cols;
  const std::int64_t blocks = ceil_divide(weights, encoding.block_cols);
  const Companion& scale = binder.scales(blocks);
  binder.need(CompanionRole::kTable, 16, ElementType::kF32);
  if (scale.type == ElementType::kU8) {
    expects(encoding.nested_block > 0, "decode_view: a nested block size");
    binder.need(CompanionRole::kNestedTable, 256, ElementType::kF32);
    binder.need(CompanionRole::kNestedScale, ceil_divide(blocks, encoding.nested_block),
                ElementType::kF32);
  } else {
    expects(scale.type == ElementType::kF32, "decode_view: absmax in float32 or U8");
  }
}

void bind_hqq(const Encoding& encoding, Binder& binder) {
  expects(encoding.block_cols > 0 && encoding.plane > 0, "decode_view: groups and planes");
  const std::int64_t weights = encoding.whole_rows * encoding.whole_cols;
  const std::int64_t groups = weights / encoding.block_cols;
  const Companion& scale = binder.scales(groups);
  const Companion& zero = binder.zeros(groups);
  expects(is_scale_type(zero.type) && scale.rows * scale.cols == groups &&
              zero.rows * zero.cols == groups && groups * encoding.block_cols == weights,
          "decode_view: a scale and a zero for every group");
}

void bind_companions(const Encoding& encoding, const DecodeView& view, Binder& binder) {
  switch (encoding.scheme) {
    case Scheme::kFp8Block:
    case Scheme::kFactoredBlocks:
      binder.scales_of_blocks();
      return;
    case Scheme::kScaledInt: {
      const Companion& scale = binder.scales_of_blocks();
      if (binder.has(CompanionRole::kZeroPoint)) {
        expects(binder.zeros(scale.rows * scale.cols).type == ElementType::kI8,
                "decode_view: zero points of eight bits");
      }
      return;
    }
    case Scheme::kFp4:
      binder.scales_of_blocks();
      if (binder.has(CompanionRole::kGlobalScale)) {
        binder.need(CompanionRole::kGlobalScale, 1, ElementType::kF32);
      }
      return;
    case Scheme::kPackedInt:
    case Scheme::kPackedIntPadded:
      bind_packed_int(encoding, binder);
      return;
    case Scheme::kAffineInt: {
      const Companion& scale = binder.scales_of_blocks();
      expects(is_scale_type(binder.zeros(scale.rows * scale.cols).type),
              "decode_view: biases of a known type");
      return;
    }
    case Scheme::kBnbInt8:
      binder.scales(binder.last_row() + 1);
      return;
    case Scheme::kGptq:
    case Scheme::kAwq:
      bind_transposed(encoding, view, binder);
      return;
    case Scheme::kLookup4:
      bind_lookup(encoding, binder);
      return;
    case Scheme::kHqq:
      bind_hqq(encoding, binder);
      return;
    case Scheme::kTernary:
      expects(encoding.plane > 0, "decode_view: planes");
      binder.scales(1);
      return;
    case Scheme::kPlain:
    case Scheme::kUnsupported:
      return;
  }
}

}  // namespace

DecodeView decode_view(const EncodedMatrix& matrix) {
  expects(matrix.encoding != nullptr && is_decodable(*matrix.encoding),
          "decode_view: a decodable encoding");
  const Encoding& encoding = *matrix.encoding;
  expects(matrix.rows >= 0 && matrix.cols >= 0 && matrix.first_row >= 0 && matrix.first_col >= 0,
          "decode_view: counts that are not negative");
  const CodeLayout layout = code_layout(encoding.scheme);
  expects(layout != CodeLayout::kRows ||
              row_bytes(encoding, static_cast<std::uint64_t>(matrix.cols)).has_value(),
          "decode_view: whole blocks in a row");
  expects(layout != CodeLayout::kFlat || (matrix.first_row + matrix.rows <= encoding.whole_rows &&
                                          matrix.first_col + matrix.cols <= encoding.whole_cols),
          "decode_view: a view inside its matrix");
  DecodeView view;
  view.codes = reinterpret_cast<const std::uint8_t*>(matrix.codes);
  view.row_stride_bytes = matrix.row_stride_bytes;
  view.code_origin = matrix.code_origin;
  view.rows = matrix.rows;
  view.cols = matrix.cols;
  view.first_row = matrix.first_row;
  view.first_col = matrix.first_col;
  view.whole_rows = encoding.whole_rows;
  view.whole_cols = encoding.whole_cols;
  view.plane = encoding.plane;
  view.block_rows = encoding.block_rows > 0 ? encoding.block_rows : kAll;
  view.block_cols = encoding.block_cols > 0 ? encoding.block_cols : kAll;
  view.nested_block = std::max(encoding.nested_block, 1);
  view.nested_offset = encoding.nested_offset;
  view.global_divides = encoding.global_divides;
  view.zero_less_one = encoding.zero_less_one;
  view.zero_carries = encoding.zero_carries;
  view.scale_per_plane_col = encoding.scale_per_plane_col;
  Binder binder(matrix, view);
  bind_companions(encoding, view, binder);
  return view;
}

std::string companion_problem(const EncodedMatrix& matrix) {
  const Companion* index = matrix.companion(CompanionRole::kGroupIndex);
  const Companion* scale = matrix.companion(CompanionRole::kScale);
  if (matrix.encoding == nullptr || index == nullptr || scale == nullptr) {
    return "";
  }
  const bool transposed = code_layout(matrix.encoding->scheme) == CodeLayout::kColumns;
  const std::int64_t groups = transposed ? scale->rows : scale->cols;
  if (index->bytes.size() / 4 < static_cast<std::size_t>(matrix.cols)) {
    return fmt::format("group indices: {} bytes for {} columns", index->bytes.size(), matrix.cols);
  }
  const auto* values = reinterpret_cast<const std::uint8_t*>(index->bytes.data());
  std::int64_t negative = 0;
  for (std::int64_t col = 0; col < matrix.cols; ++col) {
    const auto group = load_as<std::int32_t>(values + 4 * col);
    negative += group < 0 ? 1 : 0;
    if (group >= groups || (group < 0 && transposed)) {
      return fmt::format("group index {} of column {}: there are {} groups", group, col, groups);
    }
  }
  if (negative != 0 && negative != matrix.cols) {
    return fmt::format("group indices: {} of {} are negative", negative, matrix.cols);
  }
  return "";
}

}  // namespace vindex::decode
