// Owns encoded matrices of any decodable format, for benchmarks, fuzzing and tests: which
// companions a scheme takes and of what sizes, in heap blocks that end where their last byte ends,
// so that a sanitizer sees any read past them.
#pragma once

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "decode/encoding_table.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::decode {

/// What may stand beside codes, where the scheme leaves it open.
struct SampleShape {
  Encoding encoding;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  ElementType scale_type = ElementType::kF32;
  bool zeros = false;    ///< kPackedInt*, kScaledInt
  bool indices = false;  ///< kPackedInt*, kGptq
  bool global = false;   ///< kFp4
  bool nested = false;   ///< kLookup4
};

struct CompanionShape {
  CompanionRole role;
  ElementType type;
  std::int64_t rows;
  std::int64_t cols;
};

inline std::int64_t blocks_in(std::int64_t length, std::int64_t block) {
  return block == 0 ? 1 : ceil_divide(length, block);
}

/// Words of 32 bits for `codes` codes.
inline std::int64_t words_for(const Encoding& encoding, std::int64_t codes) {
  return encoding.scheme == Scheme::kPackedIntPadded ? blocks_in(codes, 32 / encoding.bits)
                                                     : blocks_in(codes * encoding.bits, 32);
}

inline std::vector<CompanionShape> companions_of(const SampleShape& shape) {
  const Encoding& encoding = shape.encoding;
  const std::int64_t scale_rows = blocks_in(shape.rows, encoding.block_rows);
  const std::int64_t scale_cols = blocks_in(shape.cols, encoding.block_cols);
  const std::int64_t weights = shape.rows * shape.cols;
  std::vector<CompanionShape> out;
  const auto add = [&](CompanionRole role, ElementType type, std::int64_t rows, std::int64_t cols) {
    out.push_back({role, type, rows, cols});
  };
  switch (encoding.scheme) {
    case Scheme::kPlain:
    case Scheme::kUnsupported:
      return out;
    case Scheme::kBnbInt8:
      add(CompanionRole::kScale, ElementType::kF32, shape.rows, 1);
      return out;
    case Scheme::kGptq:
    case Scheme::kAwq:
      add(CompanionRole::kScale, shape.scale_type, scale_cols, shape.rows);
      add(CompanionRole::kZeroPoint, ElementType::kI32, scale_cols,
          words_for(encoding, shape.rows));
      break;
    case Scheme::kLookup4: {
      const std::int64_t blocks = blocks_in(weights, encoding.block_cols);
      add(CompanionRole::kScale, shape.nested ? ElementType::kU8 : ElementType::kF32, blocks, 1);
      add(CompanionRole::kTable, ElementType::kF32, 16, 1);
      if (shape.nested) {
        add(CompanionRole::kNestedScale, ElementType::kF32,
            blocks_in(blocks, encoding.nested_block), 1);
        add(CompanionRole::kNestedTable, ElementType::kF32, 256, 1);
      }
      return out;
    }
    case Scheme::kHqq:
      add(CompanionRole::kScale, shape.scale_type, weights / encoding.block_cols, 1);
      add(CompanionRole::kZeroPoint, shape.scale_type, weights / encoding.block_cols, 1);
      return out;
    case Scheme::kTernary:
      add(CompanionRole::kScale, shape.scale_type, 1, 1);
      return out;
    case Scheme::kAffineInt:
      add(CompanionRole::kZeroPoint, shape.scale_type, scale_rows, scale_cols);
      [[fallthrough]];
    default:
      add(CompanionRole::kScale, shape.scale_type, scale_rows, scale_cols);
  }
  if (shape.zeros) {
    const bool packed = encoding.scheme != Scheme::kScaledInt;
    add(CompanionRole::kZeroPoint, packed ? ElementType::kI32 : ElementType::kI8,
        packed ? words_for(encoding, shape.rows) : scale_rows, scale_cols);
  }
  if (shape.indices) {
    add(CompanionRole::kGroupIndex, ElementType::kI32, shape.cols, 1);
  }
  if (shape.global) {
    add(CompanionRole::kGlobalScale, ElementType::kF32, 1, 1);
  }
  return out;
}

/// The matrix of a shape. `fill(span, role or kCount for the codes, type)` gives every byte; group
/// indices are brought into range afterwards.
class EncodedSample {
 public:
  template <typename Fill>
  EncodedSample(const SampleShape& shape, std::size_t misalignment, Fill&& fill)
      : encoding_(std::make_unique<Encoding>(shape.encoding)) {
    const auto rows = static_cast<std::uint64_t>(shape.rows);
    const auto cols = static_cast<std::uint64_t>(shape.cols);
    matrix_.encoding = encoding_.get();
    matrix_.rows = shape.rows;
    matrix_.cols = shape.cols;
    matrix_.row_stride_bytes =
        static_cast<std::int64_t>(code_stride(*encoding_, rows, cols).value());
    matrix_.codes = reinterpret_cast<const std::byte*>(
        place(code_bytes(*encoding_, rows, cols).value(), misalignment, CompanionRole::kCount,
              encoding_->type, fill)
            .data());
    for (const CompanionShape& companion : companions_of(shape)) {
      const auto bytes =
          stored_bytes(companion.type, static_cast<std::uint64_t>(companion.rows * companion.cols))
              .value();
      const std::span<std::uint8_t> values =
          place(bytes, misalignment, companion.role, companion.type, fill);
      if (companion.role == CompanionRole::kGroupIndex) {
        const std::int64_t groups = blocks_in(shape.cols, encoding_->block_cols);
        bring_into_range(values, static_cast<std::uint32_t>(groups));
      }
      matrix_.companions.at(static_cast<std::size_t>(matrix_.companion_count++)) = {
          companion.role, companion.type, companion.rows, companion.cols, std::as_bytes(values)};
    }
  }

  const EncodedMatrix& matrix() const { return matrix_; }

 private:
  template <typename Fill>
  std::span<std::uint8_t> place(std::uint64_t bytes, std::size_t misalignment, CompanionRole role,
                                ElementType type, Fill& fill) {
    const auto size = static_cast<std::size_t>(bytes);
    blocks_.push_back(std::make_unique<std::uint8_t[]>(size + misalignment));
    const std::span<std::uint8_t> values(blocks_.back().get() + misalignment, size);
    fill(values, role, type);
    return values;
  }
  static void bring_into_range(std::span<std::uint8_t> values, std::uint32_t groups) {
    for (std::size_t i = 0; i + 4 <= values.size(); i += 4) {
      std::uint32_t index = 0;
      std::memcpy(&index, values.data() + i, 4);
      index %= groups;
      std::memcpy(values.data() + i, &index, 4);
    }
  }

  std::unique_ptr<Encoding> encoding_;
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;
  EncodedMatrix matrix_;
};

/// Every shape that `row` of the table is tried in: at least `rows` x `cols`, made to fit. `group`
/// weights share a scale where the scheme lets it be chosen.
inline std::vector<SampleShape> shapes_of(const FormatRow& row, std::int64_t rows,
                                          std::int64_t cols, std::int32_t group) {
  SampleShape shape;
  shape.rows = rows;
  shape.cols = blocks_in(cols, row.elements) * row.elements;
  Encoding& encoding = shape.encoding;
  encoding.scheme = row.scheme;
  encoding.type = row.type;
  encoding.bits = row.bits;
  encoding.block_cols = group;
  encoding.whole_rows = rows;
  encoding.whole_cols = shape.cols;
  const std::string width = std::to_string(row.bits);
  std::vector<SampleShape> shapes;
  const auto add = [&](std::string label) {
    encoding.label = std::move(label);
    shapes.push_back(shape);
  };
  const auto eights = [&] { shape.rows = encoding.whole_rows = blocks_in(rows, 8) * 8; };
  switch (row.scheme) {
    case Scheme::kPlain:
      shape.encoding = plain_encoding(row.type);
      shapes.push_back(shape);
      break;
    case Scheme::kFactoredBlocks:
      encoding = factored_encoding(row.type);
      add(encoding.label + "/factor");
      break;
    case Scheme::kFp8Block: {
      encoding.block_rows = encoding.block_cols = 128;
      add(std::string(element_type_row(row.type).name) + "/128x128");
      break;
    }
    case Scheme::kScaledInt:
      add("INT8/group");
      shape.zeros = true;
      add("INT8/group/asym");
      break;
    case Scheme::kBnbInt8:
      add("INT8/row");
      break;
    case Scheme::kFp4:
      encoding.block_cols = 32;
      shape.scale_type = ElementType::kF8E8M0;
      add("MXFP4/pairs");
      encoding.block_cols = 16;
      shape.scale_type = ElementType::kF8E4M3;
      shape.global = true;
      add("NVFP4/pairs");
      encoding.global_divides = true;
      add("NVFP4/divides");
      break;
    case Scheme::kPackedInt:
    case Scheme::kPackedIntPadded: {
      const std::string name = "INT" + width + (row.scheme == Scheme::kPackedInt ? "" : "/padded");
      shape.scale_type = ElementType::kBF16;
      add(name);
      shape.zeros = true;
      add(name + "/asym");
      shape.indices = true;
      add(name + "/asym/g_idx");
      break;
    }
    case Scheme::kAffineInt:
      shape.scale_type = ElementType::kBF16;
      add("INT" + width + "/mlx");
      break;
    case Scheme::kGptq:
      shape.scale_type = ElementType::kF16;
      shape.rows = encoding.whole_rows = blocks_in(rows, 32) * 32;
      encoding.zero_less_one = true;
      add("INT" + width + "/gptq");
      encoding.zero_less_one = false;
      shape.indices = true;
      add("INT" + width + "/gptq/g_idx");
      break;
    case Scheme::kAwq:
      shape.scale_type = ElementType::kF16;
      eights();
      add("INT4/awq");
      break;
    case Scheme::kLookup4:
      add("NF4");
      shape.nested = true;
      encoding.nested_block = 256;
      encoding.nested_offset = 0.0123F;
      add("NF4/nested");
      break;
    case Scheme::kHqq: {
      shape.scale_type = ElementType::kF16;
      eights();
      const std::int64_t planes = row.bits == 3 ? 10 : 8 / row.bits;
      const std::int64_t weights = shape.rows * shape.cols;
      // Groups that divide the weights into a multiple of eight.
      encoding.block_cols =
          static_cast<std::int32_t>(weights % (8 * std::int64_t{group}) == 0 ? group : shape.cols);
      const std::int64_t groups = weights / encoding.block_cols;
      encoding.plane = blocks_in(groups, planes) * encoding.block_cols;
      add("INT" + width + "/hqq");
      if (encoding.block_cols % planes == 0 || row.bits == 3) {
        encoding.scale_per_plane_col = true;
        encoding.plane = blocks_in(encoding.block_cols, planes) * groups;
        add("INT" + width + "/hqq/axis0");
      }
      break;
    }
    case Scheme::kTernary:
      shape.scale_type = ElementType::kBF16;
      encoding.plane = blocks_in(shape.rows, 4) * shape.cols;
      encoding.global_divides = true;
      add("TERNARY");
      break;
    case Scheme::kUnsupported:
      break;
  }
  return shapes;
}

}  // namespace vindex::decode
