#include "schemes.hpp"

#include "weight.hpp"

namespace vindex::model {

namespace {

using decode::ElementType;
using shard::StoredTensor;

/// What a tensor with weight_scale (or `.scale`) is, told by the type of its codes.
void apply_scaled(Weight& weight) {
  const ElementType type = weight.codes().type;
  const StoredTensor* scale = weight.companion(Part::kScale);
  const bool one_scale =
      scale != nullptr && (scale->shape.empty() || scale->shape == std::vector<std::int64_t>{1});
  if (type == ElementType::kU8 && one_scale) {
    // BitNet packs four rows of ternary codes into one row of bytes.
    if (weight.is_matrix_or_stack() && weight.code_rows() < kMostSide) {
      weight.set_shape(weight.code_rows() * 4, weight.code_cols());
    }
    weight.name_only("TERNARY");
  } else if (type == ElementType::kU8 || (type == ElementType::kI8 && scale != nullptr &&
                                          scale->type == ElementType::kF8E8M0)) {
    apply_fp4_pairs(weight, "MXFP4");
  } else if (type == ElementType::kI8) {
    weight.name_only("INT8/row");
  } else {
    apply_float8_scale(weight);
  }
}

void apply_packed(Weight& weight) {
  if (weight.codes().type == ElementType::kI32) {
    apply_packed_int(weight);
    return;
  }
  const StoredTensor* scale = weight.companion(Part::kScale);
  const bool nvfp4 = weight.found.hint == Hint::kNvfp4 ||
                     (scale != nullptr && scale->type == ElementType::kF8E4M3);
  apply_fp4_pairs(weight, nvfp4 ? "NVFP4" : "MXFP4");
}

void apply_by_hint(Weight& weight) {
  switch (weight.found.hint) {
    case Hint::kScaleInverse:
      apply_float8_block(weight);
      return;
    case Hint::kBnb4:
      apply_bnb4(weight);
      return;
    case Hint::kBnb8:
      weight.name_only("INT8/row");
      return;
    case Hint::kMlx:
      apply_mlx(weight);
      return;
    case Hint::kNvfp4:
      apply_fp4_pairs(weight, "NVFP4");
      return;
    case Hint::kScale:
    case Hint::kNone:
      apply_scaled(weight);
      return;
  }
}

}  // namespace

void apply_scheme(const shard::ModelFiles& files, const QuantClaims& claims,
                  const SmallValues& values, CodeName code_name, const Found& found,
                  LogicalTensor& logical) {
  Weight weight(files, claims, values, found, logical);
  switch (code_name) {
    case CodeName::kWeight:
      apply_by_hint(weight);
      return;
    case CodeName::kPacked:
      apply_packed(weight);
      return;
    case CodeName::kQweight:
      apply_gptq_or_awq(weight);
      return;
    case CodeName::kHqq:
      apply_hqq(weight);
      return;
    case CodeName::kBlocks:
      apply_blocks(weight);
      return;
  }
}

}  // namespace vindex::model
