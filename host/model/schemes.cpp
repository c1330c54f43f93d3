// Owns which rule applies, by hint or by what lies beside the codes; scheme_*.cpp have the rules.
#include "schemes.hpp"

#include "weight.hpp"

namespace vindex::model {

namespace {

using decode::ElementType;
using shard::StoredTensor;

/// Whether U8 codes under one scale are BitNet's; FP4 has a scale per group.
bool is_ternary(const Weight& weight) {
  const StoredTensor* scale = weight.companion(Part::kScale);
  return weight.codes().type == ElementType::kU8 && scale != nullptr &&
         element_count(*scale) == 1 && is_float_scale(scale->type);
}

bool has_e4m3_scales(const Weight& weight) {
  const StoredTensor* scale = weight.companion(Part::kScale);
  return scale != nullptr && scale->type == ElementType::kF8E4M3;
}

/// What a tensor with weight_scale (or `.scale`) is, told by the type of its codes.
void apply_scaled(Weight& weight) {
  const ElementType type = weight.codes().type;
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (is_ternary(weight)) {
    apply_ternary(weight);
  } else if (type == ElementType::kU8 || type == ElementType::kF4 ||
             (type == ElementType::kI8 && scale != nullptr &&
              scale->type == ElementType::kF8E8M0)) {
    apply_fp4_pairs(weight, has_e4m3_scales(weight));
  } else if (type == ElementType::kI8) {
    apply_scaled_int(weight);
  } else {
    apply_float8(weight);
  }
}

void apply_packed(Weight& weight) {
  if (weight.claims.format == "marlin-24") {
    weight.name_only("INT/marlin-24");
    return;
  }
  if (weight.codes().type == ElementType::kI32) {
    apply_packed_int(weight);
    return;
  }
  // FP6 packs 32 codes into 24 bytes, FP4 into 16.
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (scale != nullptr && is_power_scale(scale->type) && weight.is_matrix_or_stack() &&
      weight.code_cols() % 24 == 0 &&
      weight.has_shape(*scale, weight.code_rows(), weight.code_cols() / 24)) {
    weight.forget_shape();
    weight.name_only("MXFP6");
    return;
  }
  apply_fp4_pairs(weight, weight.found.hint == Hint::kNvfp4 || has_e4m3_scales(weight));
}

void apply_by_hint(Weight& weight) {
  switch (weight.found.hint) {
    case Hint::kScaleInverse:
      apply_float8(weight);
      return;
    case Hint::kBnb4:
      apply_bnb4(weight);
      return;
    case Hint::kBnb8:
      apply_bnb8(weight);
      return;
    case Hint::kMlx:
      apply_mlx(weight);
      return;
    case Hint::kNvfp4:
      apply_fp4_pairs(weight, true);
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
