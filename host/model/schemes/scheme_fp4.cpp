// Owns FP4 weights: pairs of codes with scales per group, as bytes [rows, cols / 2], as F4 tensors
// of the logical shape, and as gpt-oss' blocks.
#include "weight.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::model {

using decode::CompanionRole;
using decode::ElementType;
using input::StoredTensor;

namespace {

constexpr std::int64_t kMxGroup = 32;
constexpr std::int64_t kNvGroup = 16;

bool has_one_element(const Weight& weight, const StoredTensor& tensor) {
  // A stack may have one for each of its matrices.
  std::int64_t count = 1;
  for (const std::int64_t side : tensor.shape) {
    count = side == 1 ? count : count == 1 ? side : 0;
  }
  const auto& shape = weight.codes().shape;
  return count == 1 || (shape.size() == 3 && count == shape[0] && tensor.shape[0] == count);
}

void set_pairs(Weight& weight, std::int64_t group) {
  decode::Encoding& encoding = weight.logical.encoding;
  encoding.scheme = decode::Scheme::kFp4;
  encoding.type = ElementType::kF4;
  encoding.block_rows = 1;
  encoding.block_cols = static_cast<std::int32_t>(group);
  weight.use(CompanionRole::kScale, Part::kScale);
}

/// Sets the factor of NVFP4's scales. ModelOpt multiplies by weight_scale_2, compressed-tensors
/// divides by weight_global_scale. False after a failure.
bool use_global(Weight& weight) {
  const StoredTensor* global = weight.companion(Part::kGlobalScale);
  if (global == nullptr) {
    weight.missing(weight.logical.codes >= 0 && weight.codes().name.ends_with("_packed")
                       ? ".weight_global_scale"
                       : ".weight_scale_2");
    return false;
  }
  if (global->type != ElementType::kF32) {
    weight.mistyped(*global);
    return false;
  }
  if (!has_one_element(weight, *global)) {
    weight.misshapen(*global, "one number is needed");
    return false;
  }
  weight.logical.encoding.global_divides = global->name.ends_with("_global_scale");
  weight.use(CompanionRole::kGlobalScale, Part::kGlobalScale);
  return true;
}

}  // namespace

void apply_fp4_pairs(Weight& weight, bool nvfp4) {
  const std::string label = nvfp4 ? "NVFP4" : "MXFP4";
  weight.logical.encoding = unsupported_encoding(label, weight.codes().type);
  const bool is_f4 = weight.codes().type == ElementType::kF4;  // its header has the logical shape
  if (!weight.is_matrix_or_stack() || weight.code_cols() >= kMaxSide / 2) {
    weight.forget_shape();
    weight.codes_misshapen();
    return;
  }
  const std::int64_t rows = weight.code_rows();
  const std::int64_t cols = weight.code_cols() * (is_f4 ? 1 : 2);
  weight.set_shape(rows, cols);
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.missing(".weight_scale");
    return;
  }
  // ModelOpt's 4-bit integers have the same names, two rows to a byte and float scales.
  if (weight.claims.algorithm.find("AWQ") != std::string::npos && is_float_scale(scale->type)) {
    weight.forget_shape();
    weight.name_only("INT4/" + printable(weight.claims.algorithm));
    return;
  }
  if (nvfp4 ? scale->type != ElementType::kF8E4M3 : !is_power_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  const std::int64_t group = nvfp4 ? kNvGroup : kMxGroup;
  const std::int64_t groups = ceil_divide(cols, group);
  if (!weight.has_shape(*scale, rows, groups)) {
    weight.misshapen(*scale, fmt::format("{}x{} scales are needed", rows, groups));
    return;
  }
  if (nvfp4 && !use_global(weight)) {
    return;
  }
  set_pairs(weight, group);
}

// gpt-oss: blocks [.., rows, groups, 16 bytes of 32 codes] are rows of pairs with a side more.
void apply_blocks(Weight& weight) {
  weight.logical.encoding = unsupported_encoding("MXFP4", weight.codes().type);
  const std::vector<std::int64_t>& shape = weight.codes().shape;
  const std::size_t rank = shape.size();
  if ((rank != 4 && rank != 3) || shape.back() != 16 || shape[rank - 2] >= kMaxSide / kMxGroup) {
    weight.forget_shape();
    weight.codes_misshapen();
    return;
  }
  weight.logical.shape.assign(shape.begin(), shape.end() - 1);
  weight.logical.shape.back() *= kMxGroup;
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale == nullptr) {
    weight.fail(fmt::format("scale missing: {}_scales", printable(weight.logical.name)));
    return;
  }
  if (!is_power_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  if (!std::equal(scale->shape.begin(), scale->shape.end(), shape.begin(), shape.end() - 1)) {
    weight.misshapen(*scale, "a scale for every block is needed");
    return;
  }
  set_pairs(weight, kMxGroup);
}

}  // namespace vindex::model
