// Owns one number per byte with scales: 8-bit floats, and compressed-tensors' plain integers. Every
// geometry is a block of some size, so one decoder serves all: a scale per tensor is a block of
// rows x cols, one per row a block of 1 x cols.
#include "weight.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::model {

using decode::CompanionRole;
using decode::ElementType;
using input::StoredTensor;

namespace {

// The only geometry in use where no configuration names one; the scale's shape must confirm it.
constexpr std::pair<std::int32_t, std::int32_t> kUsualBlock{128, 128};

/// Block geometry and the end of the label; 0 rows: none fits.
struct Geometry {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string label;
};

Geometry block_of(const Weight& weight, const StoredTensor& scale,
                  std::pair<std::int32_t, std::int32_t> sides) {
  const auto [rows, cols] = sides;
  if (!weight.has_shape(scale, ceil_divide(weight.code_rows(), rows),
                        ceil_divide(weight.code_cols(), cols))) {
    return {};
  }
  return {rows, cols, fmt::format("/{}x{}", rows, cols)};
}

/// What the shape of `scale` says; the configuration decides between readings that it allows.
Geometry geometry_of(const Weight& weight, const StoredTensor& scale) {
  const std::int64_t rows = weight.code_rows();
  const std::int64_t cols = weight.code_cols();
  if (weight.claims.block) {
    if (Geometry block = block_of(weight, scale, *weight.claims.block); block.rows > 0) {
      return block;
    }
  }
  if (is_power_scale(scale.type) && weight.has_shape(scale, rows, ceil_divide(cols, 32))) {
    return {1, 32, "/mx32"};
  }
  if (weight.has_shape(scale, 1, 1)) {
    return {rows, cols, "/tensor"};
  }
  if (weight.has_shape(scale, rows, 1)) {
    return {1, cols, "/channel"};
  }
  if (Geometry block = block_of(weight, scale, kUsualBlock); block.rows > 0) {
    return block;
  }
  const std::int64_t groups = scale.shape.empty() ? 0 : scale.shape.back();
  if (groups > 1 && cols % groups == 0 && weight.has_shape(scale, rows, groups)) {
    return {1, cols / groups, fmt::format("/g{}", cols / groups)};
  }
  return {};
}

bool has_usable_sides(const Weight& weight) {
  return weight.is_matrix_or_stack() && weight.code_rows() >= 1 && weight.code_cols() >= 1 &&
         weight.code_rows() <= kMaxSide && weight.code_cols() <= kMaxSide;
}

/// The geometry of the weight's scales, or 0 rows after a failure.
Geometry checked_geometry(Weight& weight, std::string_view suffix) {
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(suffix);
    return {};
  }
  if (!has_usable_sides(weight)) {
    weight.codes_misshapen();
    return {};
  }
  Geometry geometry = geometry_of(weight, *scale);
  if (geometry.rows == 0) {
    const auto [rows, cols] = weight.claims.block.value_or(kUsualBlock);
    weight.misshapen(*scale, fmt::format("one, {} or {}x{} scales are needed", weight.code_rows(),
                                         ceil_divide(weight.code_rows(), rows),
                                         ceil_divide(weight.code_cols(), cols)));
    return {};
  }
  if (!is_float_scale(scale->type) && !is_power_scale(scale->type)) {
    weight.mistyped(*scale);
    return {};
  }
  return geometry;
}

void set_blocks(Weight& weight, decode::Scheme scheme, const Geometry& geometry) {
  decode::Encoding& encoding = weight.logical.encoding;
  encoding.scheme = scheme;
  encoding.type = weight.codes().type;
  encoding.block_rows = static_cast<std::int32_t>(geometry.rows);
  encoding.block_cols = static_cast<std::int32_t>(geometry.cols);
  weight.use(CompanionRole::kScale, Part::kScale);
}

}  // namespace

// Despite its name weight_scale_inv multiplies (DeepSeek-V3, README_WEIGHTS), as weight_scale does.
void apply_float8(Weight& weight) {
  const std::string type(type_name(weight.codes().type));
  const bool inverse = weight.found.hint == Hint::kScaleInverse;
  if (!is_float8(weight.codes().type)) {
    const std::string& method = weight.claims.method;
    weight.name_only(fmt::format("{}/{}", type, method.empty() ? "scaled" : printable(method)));
    return;
  }
  const auto [rows, cols] = weight.claims.block.value_or(kUsualBlock);
  weight.logical.encoding = unsupported_encoding(
      inverse ? fmt::format("{}/{}x{}", type, rows, cols) : type, weight.codes().type);
  const Geometry geometry =
      checked_geometry(weight, inverse ? ".weight_scale_inv" : ".weight_scale");
  if (geometry.rows == 0) {
    return;
  }
  set_blocks(weight, decode::Scheme::kFp8Block, geometry);
  weight.logical.encoding.label = type + geometry.label;
}

void apply_scaled_int(Weight& weight) {
  weight.logical.encoding = unsupported_encoding("INT8", weight.codes().type);
  const Geometry geometry = checked_geometry(weight, ".weight_scale");
  if (geometry.rows == 0) {
    return;
  }
  const bool per_row = geometry.rows == 1 && geometry.label == "/channel";
  weight.logical.encoding.label = "INT8" + (per_row ? std::string("/row") : geometry.label);
  if (const StoredTensor* zero = weight.companion(Part::kZeroPoint)) {
    weight.logical.encoding.label += "/asym";
    if (zero->type != ElementType::kI8) {
      weight.mistyped(*zero);
      return;
    }
    if (zero->shape != weight.companion(Part::kScale)->shape) {
      weight.misshapen(*zero, "one beside each scale is needed");
      return;
    }
    weight.use(CompanionRole::kZeroPoint, Part::kZeroPoint);
  }
  set_blocks(weight, decode::Scheme::kScaledInt, geometry);
}

}  // namespace vindex::model
