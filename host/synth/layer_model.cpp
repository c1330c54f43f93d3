// Owns the spec "layer:...": one mixture-of-experts layer's down projections, of any size, under
// the deepseek_v3 names.
#include "model_plan.hpp"
#include "random.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/encode.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace vindex::synth {

ModelPlan plan_layer(std::int64_t experts, std::int64_t rows, std::int64_t cols, Variant variant,
                     Kind kind, const std::string& spec, std::uint64_t seed) {
  const decode::Encoding encoding = variant_encoding(variant);
  if (!decode::encoded_size(encoding, rows, cols)) {
    throw UsageError("E-SYNTH-SPEC", "a " + std::to_string(rows) + " x " + std::to_string(cols) +
                                         " matrix cannot be stored as " + encoding.label +
                                         ": its columns must fill whole groups");
  }
  ModelPlan plan;
  plan.spec = spec;
  plan.seed = seed;
  // No num_hidden_layers: one layer of a model is no number that its tensors would confirm.
  nlohmann::ordered_json config = {{"architectures", {"DeepseekV3ForCausalLM"}},
                                   {"first_k_dense_replace", 1},
                                   {"hidden_size", rows},
                                   {"model_type", "deepseek_v3"},
                                   {"moe_intermediate_size", cols},
                                   {"moe_layer_freq", 1},
                                   {"n_routed_experts", experts},
                                   {"num_experts_per_tok", std::min<std::int64_t>(8, experts)},

                                   {"torch_dtype", "bfloat16"}};
  const auto quantisation = quantization_config(variant);
  if (!quantisation.is_null()) {
    config["quantization_config"] = quantisation;
  }
  plan.config = config.dump(2) + "\n";
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    PlannedTensor tensor;
    tensor.name = "model.layers.1.mlp.experts." + std::to_string(expert) + ".down_proj.weight";
    tensor.encoding = encoding;
    Recipe& recipe = tensor.recipe;
    recipe.kind = kind;
    recipe.rows = rows;
    recipe.cols = cols;
    recipe.deviation = 1.0 / std::sqrt(static_cast<double>(cols));
    recipe.exponent = kind == Kind::kPowerlaw ? 0.5 : 0.0;
    recipe.spikes = kind == Kind::kSpiked
                        ? static_cast<int>(std::min<std::int64_t>(8, std::min(rows, cols)))
                        : 0;
    recipe.first_spike = kind == Kind::kSpiked ? 3.0 : 0.0;
    recipe.row_spread = kind == Kind::kRowscale ? 0.3 : 0.0;
    recipe.key = tensor_key(seed, tensor.name);
    plan.tensors.push_back(std::move(tensor));
  }
  return plan;
}

}  // namespace vindex::synth
