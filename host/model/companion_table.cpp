// Owns that table.
#include "companion_table.hpp"

namespace vindex::model {

namespace {

// Source: the schemes' own packages, as gathered in docs/families.md.
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

std::span<const CompanionRow> companion_rows(shard::ContainerFormat format) {
  return format == shard::ContainerFormat::kGguf
             ? std::span<const CompanionRow>(kGgufCompanions)
             : std::span<const CompanionRow>(kSafetensorsCompanions);
}

}  // namespace vindex::model
