// Owns integers packed along the rows: MLX, and compressed-tensors' pack-quantized weights: I32
// words of offset-binary codes along the rows, a scale per group of columns, the logical shape in
// `weight_shape`. What the shapes show is believed; the configuration decides only between readings
// that the shapes allow.
#include "weight.hpp"

#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::model {

using decode::CompanionRole;
using input::StoredTensor;

namespace {

/// A width and a packing.
struct Packing {
  std::int32_t bits = 0;
  bool padded = false;  ///< no code straddles two words
};

/// Number of 32-bit words that `cols` (at most kMaxSide) codes fill.
std::int64_t words_of(std::int64_t cols, Packing packing) {
  return packing.padded ? ceil_divide(cols, 32 / packing.bits)
                        : ceil_divide(cols * packing.bits, 32);
}

/// How `cols` codes fill `words`: as claimed if so they do, else the only way that they do, else 0
/// bits. Dense where both packings are equally long: then they differ only below a word or two.
Packing packing_of(const QuantClaims& claims, std::int64_t cols, std::int64_t words) {
  for (const QuantGroup& group : claims.groups) {
    for (const bool padded : {false, true}) {
      const Packing packing{group.bits, padded};
      if (group.bits >= 1 && group.bits <= 8 && words_of(cols, packing) == words) {
        return packing;
      }
    }
  }
  Packing found;
  for (std::int32_t bits = 1; bits <= 8; ++bits) {
    for (const bool padded : {false, true}) {
      if (words_of(cols, {bits, padded}) != words || found.bits == bits) {
        continue;
      }
      if (found.bits != 0) {
        return {};
      }
      found = {bits, padded};
    }
  }
  return found;
}

/// Columns per scale: the claimed group if `scales` confirms it, else what the shape says, else -1.
/// 0 means one scale per row.
std::int64_t packed_group(const QuantClaims& claims, std::int64_t cols, std::int64_t scales) {
  for (const QuantGroup& group : claims.groups) {
    if (group.group > 0 && ceil_divide(cols, group.group) == scales) {
      return group.group;
    }
  }
  if (scales == 1) {
    return 0;
  }
  return scales > 1 && cols % scales == 0 ? cols / scales : -1;
}

/// Logical columns, or 0 after a failure.
std::int64_t columns_of(Weight& weight) {
  const std::int64_t words = weight.code_cols();
  // Two sides, or three of a stack of experts.
  const std::vector<std::int64_t> sides = weight.values.numbers(weight.found[Part::kShape]);
  if (sides.size() == 2 || sides.size() == 3) {
    const std::vector<std::int64_t>& stored = weight.codes().shape;
    const std::int64_t cols = sides.back();
    const bool fits =
        sides.size() == 2
            ? sides[0] == weight.code_rows()
            : stored.size() == 3 && std::equal(stored.begin(), stored.end() - 1, sides.begin());
    if (fits && cols >= 1 && cols <= kMaxSide) {
      return cols;
    }
    weight.fail(fmt::format("weight_shape contradicts the codes: it says {}, {} is {}",
                            fmt::join(sides, "x"), printable(weight.codes().name),
                            shape_text(stored)));
    return 0;
  }
  if (weight.found[Part::kShape] >= 0) {
    weight.fail(fmt::format("weight_shape unreadable: {} must hold the sides",
                            printable(weight.companion(Part::kShape)->name)));
    return 0;
  }
  const std::int32_t bits = weight.claims.groups.size() == 1 ? weight.claims.groups[0].bits : 0;
  if (bits >= 1 && bits <= 8 && words <= kMaxSide / 32 && words * 32 % bits == 0) {
    return words * 32 / bits;
  }
  weight.fail("weight_shape missing");
  return 0;
}

}  // namespace

void apply_packed_int(Weight& weight) {
  const StoredTensor& codes = weight.codes();
  weight.logical.encoding = unsupported_encoding("INT", codes.type);
  weight.forget_shape();
  if (!weight.is_matrix_or_stack()) {
    weight.codes_misshapen();
    return;
  }
  const std::int64_t rows = weight.code_rows();
  const std::int64_t cols = columns_of(weight);
  if (cols == 0) {
    return;
  }
  const Packing packing = packing_of(weight.claims, cols, weight.code_cols());
  if (packing.bits == 0) {
    weight.fail(
        fmt::format("weight_shape contradicts the codes: no width packs {} columns into {} "
                    "words",
                    cols, weight.code_cols()));
    return;
  }
  weight.set_shape(rows, cols);
  weight.logical.encoding = unsupported_encoding(fmt::format("INT{}", packing.bits), codes.type);

  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(".weight_scale");
    return;
  }
  const std::int64_t scales = scale->shape.empty() ? 1 : scale->shape.back();
  const std::int64_t per_row = scale->shape.size() == 1 && scales == rows ? 1 : scales;
  const bool one_scale = codes.shape.size() == 2 && rows > 1 && element_count(*scale) == 1 &&
                         weight.found[Part::kZeroPoint] < 0;
  const std::int64_t group = one_scale ? 0 : packed_group(weight.claims, cols, per_row);
  if (group < 0 || (!one_scale && !weight.has_shape(*scale, rows, per_row))) {
    weight.misshapen(*scale,
                     fmt::format("{} rows of equal groups of {} columns are needed", rows, cols));
    return;
  }
  decode::Encoding encoding =
      decode::packed_int_encoding(packing.bits, static_cast<std::int32_t>(group));
  if (one_scale) {
    encoding.block_rows = static_cast<std::int32_t>(rows);
    encoding.label = fmt::format("INT{}/tensor", packing.bits);
  }
  if (packing.padded && 32 % packing.bits != 0) {
    encoding.scheme = decode::Scheme::kPackedIntPadded;
  }
  if (weight.found[Part::kZeroPoint] >= 0) {
    encoding.label += "/asym";
  }
  if (!decode::is_decodable(encoding)) {
    weight.name_only(encoding.label);
    return;
  }
  weight.logical.encoding = encoding;
  if (!is_float_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  if (const StoredTensor* zeros = weight.companion(Part::kZeroPoint)) {
    const std::int64_t words = words_of(rows, packing);
    if (zeros->type != decode::ElementType::kI32) {
      weight.mistyped(*zeros);
      return;
    }
    if (!weight.has_shape(*zeros, words, per_row)) {
      weight.misshapen(*zeros,
                       fmt::format("{}x{} words of zero points are needed", words, per_row));
      return;
    }
    weight.use(CompanionRole::kZeroPoint, Part::kZeroPoint);
  } else if (weight.claims.groups.size() == 1 && !weight.claims.groups[0].symmetric) {
    weight.fail("zero points missing: the configuration says symmetric false");
    return;
  }
  if (const StoredTensor* index = weight.companion(Part::kGroupIndex)) {
    if (index->type != decode::ElementType::kI32) {
      weight.mistyped(*index);
      return;
    }
    if (codes.shape.size() != 2 || index->shape != std::vector<std::int64_t>{cols}) {
      weight.misshapen(*index, fmt::format("{} group indices are needed", cols));
      return;
    }
    weight.use(CompanionRole::kGroupIndex, Part::kGroupIndex);
  }
  weight.use(CompanionRole::kScale, Part::kScale);
}

namespace {

/// MLX's modes of small floats.
bool is_float_mode(std::string_view mode) {
  return mode == "mxfp4" || mode == "mxfp8" || mode == "nvfp4";
}

/// Scales and codes of MLX's float modes are U8 and U32 in the header.
void apply_mlx_float(Weight& weight, const StoredTensor& scales, std::string_view mode) {
  const bool nvfp4 = mode == "nvfp4";
  const bool wide = mode == "mxfp8";
  const std::int64_t cols = weight.code_cols() * (wide ? 4 : 8);
  const std::int64_t rows = weight.code_rows();
  const std::int64_t group = nvfp4 ? 16 : 32;
  weight.set_shape(rows, cols);
  weight.logical.encoding = unsupported_encoding(nvfp4  ? "NVFP4"
                                                 : wide ? "F8_E4M3/mx32"
                                                        : "MXFP4",
                                                 weight.codes().type);
  if (scales.type != decode::ElementType::kU8) {
    weight.mistyped(scales);
    return;
  }
  if (!weight.has_shape(scales, rows, ceil_divide(cols, group))) {
    weight.misshapen(scales,
                     fmt::format("{}x{} scales are needed", rows, ceil_divide(cols, group)));
    return;
  }
  decode::Encoding& encoding = weight.logical.encoding;
  encoding.scheme = wide ? decode::Scheme::kFp8Block : decode::Scheme::kFp4;
  encoding.type = wide ? decode::ElementType::kF8E4M3 : decode::ElementType::kF4;
  encoding.block_cols = static_cast<std::int32_t>(group);
  weight.use_as(CompanionRole::kScale, Part::kScale,
                nvfp4 ? decode::ElementType::kF8E4M3 : decode::ElementType::kF8E8M0);
}

}  // namespace

// Codes U32 [out, in * bits / 32], scales and biases [out, in / group]. Width times group is told
// by the shapes, one of them by the configuration, which may name modules one by one.
void apply_mlx(Weight& weight) {
  const StoredTensor* scales = weight.companion(Part::kScale);
  const StoredTensor* biases = weight.companion(Part::kZeroPoint);
  const std::int64_t words = weight.code_cols();
  const QuantClaims& claims = weight.claims;
  std::string_view module = weight.logical.name;
  if (module.ends_with(".weight")) {
    module.remove_suffix(7);
  }
  const QuantGroup* own = claims.module(module);
  std::int32_t bits = own != nullptr ? own->bits : claims.bits;
  const std::int32_t group_claim = own != nullptr ? own->group : claims.group;
  weight.forget_shape();
  weight.logical.encoding = unsupported_encoding("INT/mlx", weight.codes().type);
  if (weight.codes().type != decode::ElementType::kU32 || !weight.is_matrix_or_stack() ||
      words > kMaxSide / 32 || scales == nullptr || scales->shape.empty() ||
      scales->shape.back() < 1) {
    weight.codes_misshapen();
    return;
  }
  const std::string& mode = own != nullptr && !own->mode.empty() ? own->mode : claims.mode;
  if (biases == nullptr && is_float_mode(mode)) {
    apply_mlx_float(weight, *scales, mode);
    return;
  }
  const std::int64_t groups = scales->shape.back();
  if (bits == 0 && group_claim > 0 && words * 32 % (groups * group_claim) == 0) {
    bits =
        static_cast<std::int32_t>(std::min<std::int64_t>(words * 32 / (groups * group_claim), 9));
  }
  if (bits < 1 || bits > 8 || words * 32 % bits != 0) {
    weight.name_only("INT/mlx");
    return;
  }
  const std::int64_t cols = words * 32 / bits;
  weight.set_shape(weight.code_rows(), cols);
  if (cols % groups != 0 || !weight.has_shape(*scales, weight.code_rows(), groups)) {
    weight.misshapen(*scales, fmt::format("{} rows of equal groups of {} columns are needed",
                                          weight.code_rows(), cols));
    return;
  }
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kAffineInt;
  encoding.type = decode::ElementType::kU32;
  encoding.bits = bits;
  encoding.block_cols = static_cast<std::int32_t>(cols / groups);
  encoding.label = fmt::format("INT{}/g{}/asym", bits, cols / groups);
  if (!decode::is_decodable(encoding)) {
    weight.name_only(encoding.label);
    return;
  }
  weight.logical.encoding.label = encoding.label;
  if (biases == nullptr) {
    weight.missing(".biases");
    return;
  }
  for (const StoredTensor* tensor : {scales, biases}) {
    if (!is_float_scale(tensor->type)) {
      weight.mistyped(*tensor);
      return;
    }
  }
  if (biases->shape != scales->shape) {
    weight.misshapen(*biases, "one beside each scale is needed");
    return;
  }
  weight.logical.encoding = encoding;
  weight.use(CompanionRole::kScale, Part::kScale);
  weight.use(CompanionRole::kZeroPoint, Part::kZeroPoint);
}

}  // namespace vindex::model
