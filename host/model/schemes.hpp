// Owns the rules by which codes and companions make a logical weight: shapes, types and block
// geometry of every scheme of quantised safetensors. docs/families.md lists them.
#pragma once

#include "logical_tensor.hpp"
#include "model_config.hpp"
#include "small_values.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vindex::model {

/// What a companion is to its weight.
enum class Part : std::uint8_t {
  kScale,
  kZeroPoint,
  kGroupIndex,
  kGlobalScale,
  kTable,        // the weights of codes
  kNestedScale,  // scales of the scales
  kNestedTable,
  kShape,      // value: the logical rows and columns
  kBits,       // value: bits per weight
  kGroupSize,  // value: weights per scale
  kAxis,       // value: 0 or 1
  kPacking,    // value: text
  kFormat,     // value: how the codes lie
  kState,      // value: JSON
  kUnused,     // belongs to the weight, says nothing about it (activation scales)
  kCount
};

/// What a companion's name says about the scheme; where several do, the largest counts.
enum class Hint : std::uint8_t {
  kNone,
  kScaleInverse,  // _scale_inv
  kScale,         // weight_scale, .scale, qscale_weight
  kBnb4,          // absmax, quant_map, quant_state
  kBnb8,          // SCB
  kMlx,           // scales + biases
  kNvfp4,         // weight_scale_2, weight_global_scale
};

/// The companions found beside one tensor of codes.
struct Found {
  std::array<std::int32_t, static_cast<std::size_t>(Part::kCount)> parts;  ///< -1 where absent
  Hint hint = Hint::kNone;

  Found() { parts.fill(-1); }
  std::int32_t operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }
};

/// Which name the codes have.
enum class CodeName : std::uint8_t { kWeight, kPacked, kQweight, kHqq, kBlocks };

/// Fills shape, encoding, companions and `unsupported` of `logical`, whose codes are set.
void apply_scheme(const shard::ModelFiles& files, const QuantClaims& claims,
                  const SmallValues& values, CodeName code_name, const Found& found,
                  LogicalTensor& logical);

}  // namespace vindex::model
