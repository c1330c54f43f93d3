// Owns which rule applies, by hint or by what lies beside the codes (scheme_*.cpp have the rules),
// and the table of companions.
#include "schemes.hpp"

#include "weight.hpp"

namespace vindex::model {

namespace {

using decode::ElementType;
using input::StoredTensor;

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

void apply_scheme(const input::ModelFiles& files, const QuantClaims& claims,
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

namespace {

// Source: the schemes' own packages, as gathered in docs/models/families.md.
constexpr CompanionRow kSafetensorsCompanions[] = {
    {"_scale_inv", "", Part::kScale, Hint::kScaleInverse},
    {".weight_scale", ".weight_packed", Part::kScale},
    {".weight_scale", ".weight", Part::kScale, Hint::kScale},
    {".weight_shape", ".weight_packed", Part::kShape},
    {".weight_zero_point", ".weight_packed", Part::kZeroPoint},
    {".weight_zero_point", ".weight", Part::kZeroPoint, Hint::kScale},
    {".weight_g_idx", ".weight_packed", Part::kGroupIndex},
    {".weight_g_idx", ".weight", Part::kGroupIndex, Hint::kScale},
    {".weight_global_scale", ".weight_packed", Part::kGlobalScale, Hint::kNvfp4},
    {".weight_global_scale", ".weight", Part::kGlobalScale, Hint::kNvfp4},
    {".weight_scale_2", ".weight", Part::kGlobalScale, Hint::kNvfp4},
    {".input_global_scale", ".weight_packed", Part::kUnused},
    {".input_global_scale", ".weight", Part::kUnused},
    {".input_scale", ".weight_packed", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".input_scale", ".weight", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".qscale_weight", ".weight", Part::kScale, Hint::kScale},
    {".qscale_act", ".weight", Part::kUnused},
    {".qzeros", ".qweight", Part::kZeroPoint},
    {".scales", ".qweight", Part::kScale},
    {".g_idx", ".qweight", Part::kGroupIndex},
    {".scales", ".weight", Part::kScale, Hint::kMlx, Strength::kWeak},
    {".biases", ".weight", Part::kZeroPoint, Hint::kMlx, Strength::kWeak},
    {".qbiases", ".weight", Part::kZeroPoint, Hint::kMlx, Strength::kWeak},
    {".SCB", ".weight", Part::kScale, Hint::kBnb8},
    {".weight_format", ".weight", Part::kFormat, Hint::kNone, Strength::kWeak},
    {".absmax", "", Part::kScale, Hint::kBnb4},
    {".nested_absmax", "", Part::kNestedScale, Hint::kBnb4},
    {".quant_map", "", Part::kTable, Hint::kBnb4},
    {".nested_quant_map", "", Part::kNestedTable, Hint::kBnb4},
    {".quant_state.bitsandbytes__nf4", "", Part::kState, Hint::kBnb4},
    {".quant_state.bitsandbytes__fp4", "", Part::kState, Hint::kBnb4},
    {".scale", ".W_q", Part::kScale, Hint::kNone, Strength::kWeak},
    {".zero", ".W_q", Part::kZeroPoint, Hint::kNone, Strength::kWeak},
    {".shape", ".W_q", Part::kShape, Hint::kNone, Strength::kWeak},
    {".nbits", ".W_q", Part::kBits, Hint::kNone, Strength::kWeak},
    {".group_size", ".W_q", Part::kGroupSize, Hint::kNone, Strength::kWeak},
    {".axis", ".W_q", Part::kAxis, Hint::kNone, Strength::kWeak},
    {".packing", ".W_q", Part::kPacking, Hint::kNone, Strength::kWeak},
    {".view_as_float", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".unpack_view_dtype", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".compute_dtype", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".channel_wise", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".optimize", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".round_zero", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".stores_quant_config", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".encoded_state_dict", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".zero_scale", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".zero_q", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".scale_q", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".offload_meta", ".W_q", Part::kUnused, Hint::kNone, Strength::kWeak},
    {".scale", ".weight", Part::kScale, Hint::kScale, Strength::kWeak},
    {"_scales", "_blocks", Part::kScale, Hint::kNone, Strength::kWeak},
    {"_scale", "", Part::kScale, Hint::kScale, Strength::kWeak},
};

// NVFP4 blocks are not the whole weight: a float32 factor stands beside them.
constexpr CompanionRow kGgufCompanions[] = {
    {".scale", ".weight", Part::kGlobalScale, Hint::kNone, Strength::kWeak},
    {".input_scale", ".weight", Part::kUnused, Hint::kNone, Strength::kWeak},
};

}  // namespace

std::span<const CompanionRow> companion_rows(input::ContainerFormat format) {
  return format == input::ContainerFormat::kGguf
             ? std::span<const CompanionRow>(kGgufCompanions)
             : std::span<const CompanionRow>(kSafetensorsCompanions);
}

}  // namespace vindex::model
