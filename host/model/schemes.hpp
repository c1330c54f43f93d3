// Owns the rules by which codes and companions make a logical weight: shapes, types and block
// geometry of every scheme of quantised safetensors (docs/families.md, "Schemes").
#pragma once

#include "logical_tensor.hpp"
#include "model_config.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vindex::model {

/// What a companion suffix says about the scheme.
enum class Hint : std::uint8_t {
  kNone,
  kScaleInverse,  // _scale_inv
  kScale,         // weight_scale, .scale, qscale_weight
  kBnb4,          // absmax, quant_map, quant_state
  kBnb8,          // SCB
  kMlx,           // scales + biases
  kNvfp4,         // weight_scale_2, weight_global_scale
};

/// The companions found beside one tensor of codes; -1 where absent.
struct Found {
  std::int32_t scale = -1;
  std::int32_t zero_point = -1;
  std::int32_t group_index = -1;
  std::int32_t global_scale = -1;
  std::int32_t shape = -1;
  Hint hint = Hint::kNone;
  std::optional<std::array<std::int64_t, 2>> shape_value;  ///< of weight_shape, where it was read
};

/// Which tensor name the codes have.
enum class CodeName : std::uint8_t { kWeight, kPacked, kQweight, kHqq, kBlocks };

/// Fills shape, encoding, companions and `unsupported` of `logical`, whose codes are set.
void apply_scheme(const shard::ModelFiles& files, const QuantClaims& claims, CodeName code_name,
                  const Found& found, LogicalTensor& logical);

}  // namespace vindex::model
