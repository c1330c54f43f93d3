// Owns what the names of tensors in LoRA adapters say, in the words of each tool that writes them:
// factors, and whole tensors beside them.
#pragma once
#include "input/model_files.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::model {

enum class AdapterSide : std::uint8_t { kA, kB };

/// What a name says.
struct FactorName {
  std::string base;     ///< logical name of the weight that is adapted
  std::string module;   ///< its path in the base model, as patterns see it
  int depth = 0;        ///< of PEFT's wrappers around the module that share it: 0 is the outermost
  std::string adapter;  ///< name of the adapter; empty for `default` and where the file names none
  AdapterSide side = AdapterSide::kA;
  bool embedding = false;  ///< PEFT's pair of an embedding
  bool mlx = false;        ///< MLX: A is in x r, B is r x out
};

/// Nothing for a name that is no factor of a LoRA in a container of that format. Where PEFT adapts
/// several parameters of a module its wrappers lie in each other, M.lora_A outside of
/// M.base_layer.lora_A: `module` is M, `depth` counts.
std::optional<FactorName> factor_name(const std::string& name, input::ContainerFormat format);

/// The name of the weight that a tensor of an adapter belongs to: that of a factor, or of a copy of
/// the base; empty for every other.
std::string adapted_weight(const std::string& name, input::ContainerFormat format);

/// The name in the base model of a whole tensor that a PEFT adapter holds:
/// "base_model.model.lm_head.base_layer.weight" (a copy that PEFT saves beside the factors of an
/// embedding) and "base_model.model.lm_head.weight" (modules_to_save) are "lm_head.weight".
std::string base_tensor_name(const std::string& name);

}  // namespace vindex::model
