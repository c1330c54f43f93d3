// Owns 8-bit floats with scales. Every geometry is a block of some size, so one decoder serves all:
// a scale per tensor is a block of rows x cols, one per row a block of 1 x cols.
#include "weight.hpp"

#include <fmt/format.h>

namespace vindex::model {

using decode::CompanionRole;
using decode::ElementType;
using shard::StoredTensor;

namespace {

// The only geometry in use where no configuration names one; the scale's shape must confirm it.
constexpr std::pair<std::int32_t, std::int32_t> kUsualBlock{128, 128};

/// Block geometry and the end of the label, or nothing after a failure.
struct Geometry {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string label;
};

Geometry geometry_of(Weight& weight, const StoredTensor& scale) {
  const std::int64_t rows = weight.code_rows();
  const std::int64_t cols = weight.code_cols();
  if (is_power_scale(scale.type) && weight.has_shape(scale, rows, ceil_divide(cols, 32))) {
    return {1, 32, "/mx32"};
  }
  if (weight.has_shape(scale, 1, 1)) {
    return {rows, cols, "/tensor"};
  }
  if (weight.has_shape(scale, rows, 1)) {
    return {1, cols, "/channel"};
  }
  const auto [block_rows, block_cols] = weight.claims.block.value_or(kUsualBlock);
  if (weight.has_shape(scale, ceil_divide(rows, block_rows), ceil_divide(cols, block_cols))) {
    return {block_rows, block_cols, fmt::format("/{}x{}", block_rows, block_cols)};
  }
  weight.misshapen(
      scale, fmt::format("one, {} or {}x{} scales are needed", rows, ceil_divide(rows, block_rows),
                         ceil_divide(cols, block_cols)));
  return {};
}

}  // namespace

// Despite its name weight_scale_inv multiplies (DeepSeek-V3, README_WEIGHTS).
void apply_float8_block(Weight& weight) {
  const auto [block_rows, block_cols] = weight.claims.block.value_or(kUsualBlock);
  weight.logical.encoding = decode::fp8_block_encoding(block_rows, block_cols);
  if (weight.codes().type != ElementType::kF8E4M3) {
    weight.name_only(
        fmt::format("{}/{}x{}", type_name(weight.codes().type), block_rows, block_cols));
    return;
  }
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(".weight_scale_inv");
    return;
  }
  if (!weight.is_matrix_or_stack()) {
    weight.codes_misshapen();
    return;
  }
  const std::int64_t rows = ceil_divide(weight.code_rows(), block_rows);
  const std::int64_t cols = ceil_divide(weight.code_cols(), block_cols);
  if (!weight.has_shape(*scale, rows, cols)) {
    weight.misshapen(*scale, fmt::format("{}x{} blocks of {} need {}x{}", block_rows, block_cols,
                                         shape_text(weight.codes().shape), rows, cols));
    return;
  }
  if (!is_float_scale(scale->type) && scale->type != ElementType::kF8E8M0) {
    weight.mistyped(*scale);
    return;
  }
  weight.use(CompanionRole::kScale, Part::kScale);
}

void apply_float8_scale(Weight& weight) {
  const std::string type(type_name(weight.codes().type));
  if (weight.codes().type != ElementType::kF8E4M3) {
    weight.name_only(type + "/scaled");
    return;
  }
  weight.logical.encoding = unsupported_encoding(type, weight.codes().type);
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(".weight_scale");
    return;
  }
  if (!weight.is_matrix_or_stack() || weight.code_rows() < 1 || weight.code_cols() < 1 ||
      weight.code_rows() > kMostSide || weight.code_cols() > kMostSide) {
    weight.codes_misshapen();
    return;
  }
  const Geometry geometry = geometry_of(weight, *scale);
  if (geometry.rows == 0) {
    return;
  }
  if (!is_float_scale(scale->type) && !is_power_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  weight.logical.encoding = decode::fp8_block_encoding(static_cast<std::int32_t>(geometry.rows),
                                                       static_cast<std::int32_t>(geometry.cols));
  weight.logical.encoding.label = type + geometry.label;
  weight.use(CompanionRole::kScale, Part::kScale);
}

}  // namespace vindex::model
