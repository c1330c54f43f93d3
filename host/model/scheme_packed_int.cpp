// Owns compressed-tensors' pack-quantized weights: I32 words of offset-binary codes along the rows,
// a scale per group of columns, the logical shape in `weight_shape`. What the shapes show is
// believed; the configuration decides only between readings that the shapes allow.
#include "weight.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

namespace vindex::model {

using decode::CompanionRole;
using shard::StoredTensor;

namespace {

/// Number of 32-bit words that `cols` (at most kMostSide) codes of `bits` fill.
std::int64_t words_of(std::int64_t cols, std::int32_t bits) { return ceil_divide(cols * bits, 32); }

/// The width that makes `cols` codes fill `words`: the claimed one if it does, else the only one
/// that does, else 0.
std::int32_t width_of(const QuantClaims& claims, std::int64_t cols, std::int64_t words) {
  for (const QuantGroup& group : claims.groups) {
    if (group.bits >= 1 && group.bits <= 8 && words_of(cols, group.bits) == words) {
      return group.bits;
    }
  }
  std::int32_t found = 0;
  for (std::int32_t bits = 1; bits <= 8; ++bits) {
    if (words_of(cols, bits) == words) {
      if (found != 0) {
        return 0;
      }
      found = bits;
    }
  }
  return found;
}

/// Columns per scale: the claimed group if `scales` confirms it, else what the shape says, else -1.
/// 0 means one scale per row.
std::int64_t group_of(const QuantClaims& claims, std::int64_t cols, std::int64_t scales) {
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
  if (const auto value = weight.values.pair(weight.found[Part::kShape])) {
    const auto [rows, cols] = *value;
    if (rows == weight.code_rows() && cols >= 1 && cols <= kMostSide) {
      return cols;
    }
    weight.fail(fmt::format("weight_shape contradicts the codes: it says {}x{}, {} is {}", rows,
                            cols, printable(weight.codes().name),
                            shape_text(weight.codes().shape)));
    return 0;
  }
  if (weight.found[Part::kShape] >= 0) {
    weight.fail(fmt::format("weight_shape unreadable: {} must hold two integers",
                            printable(weight.companion(Part::kShape)->name)));
    return 0;
  }
  const std::int32_t bits = weight.claims.groups.size() == 1 ? weight.claims.groups[0].bits : 0;
  if (bits >= 1 && bits <= 8 && words <= kMostSide / 32 && words * 32 % bits == 0) {
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
  const std::int32_t bits = width_of(weight.claims, cols, weight.code_cols());
  if (bits == 0) {
    weight.fail(
        fmt::format("weight_shape contradicts the codes: no width packs {} columns into {} "
                    "words",
                    cols, weight.code_cols()));
    return;
  }
  weight.set_shape(rows, cols);
  weight.logical.encoding = unsupported_encoding(fmt::format("INT{}", bits), codes.type);

  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(".weight_scale");
    return;
  }
  const std::int64_t scales = scale->shape.empty() ? 0 : scale->shape.back();
  const std::int64_t per_row = scale->shape.size() == 1 && scales == rows ? 1 : scales;
  const std::int64_t group = group_of(weight.claims, cols, per_row);
  if (group < 0 || !weight.has_shape(*scale, rows, per_row)) {
    weight.misshapen(*scale,
                     fmt::format("{} rows of equal groups of {} columns are needed", rows, cols));
    return;
  }
  weight.logical.encoding = decode::packed_int_encoding(bits, static_cast<std::int32_t>(group));
  if (!is_float_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  if (weight.found[Part::kZeroPoint] >= 0) {
    weight.name_only(weight.logical.encoding.label + "/asym");
    return;
  }
  if (weight.claims.groups.size() == 1 && !weight.claims.groups[0].symmetric) {
    weight.fail("zero points missing: the configuration says symmetric false");
    return;
  }
  if (weight.found[Part::kGroupIndex] >= 0) {
    weight.fail("scheme not supported: group indices (weight_g_idx)");
    return;
  }
  weight.use(CompanionRole::kScale, Part::kScale);
}

}  // namespace vindex::model
