// Owns the spec "layer:...": one mixture-of-experts layer's routed experts, of any size, under the
// deepseek_v3 names.
#include "model_plan.hpp"
#include "random.hpp"
#include "recipe.hpp"

#include "core/json/json_document.hpp"
#include "decode/encode/encode.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace vindex::synth {
namespace {

constexpr std::string_view kDown = "down_proj";

class ExpertPlanner {
 public:
  ExpertPlanner(ModelPlan& plan, Variant variant)
      : plan_(plan), encoding_(variant_encoding(variant)) {}

  void add(std::int64_t expert, std::string_view projection, Recipe recipe) {
    if (!decode::encoded_size(encoding_, recipe.rows, recipe.cols)) {
      throw UsageError("E-SYNTH-SPEC", "a " + std::to_string(recipe.rows) + " x " +
                                           std::to_string(recipe.cols) +
                                           " matrix cannot be stored as " + encoding_.label +
                                           ": its columns must fill whole groups");
    }
    PlannedTensor tensor;
    tensor.name = "model.layers.1.mlp.experts." + std::to_string(expert) + "." +
                  std::string(projection) + ".weight";
    tensor.encoding = encoding_;
    tensor.recipe = recipe;
    tensor.recipe.key = tensor_key(plan_.seed, tensor.name);
    plan_.tensors.push_back(std::move(tensor));
  }

 private:
  ModelPlan& plan_;
  decode::Encoding encoding_;
};

const TrainedRole& down_role() {
  const auto* const role =
      std::find_if(kTrainedRoles.begin(), kTrainedRoles.end(),
                   [](const TrainedRole& one) { return one.projection == kDown; });
  expects(role != kTrainedRoles.end(), "down_role: a role of the table");
  return *role;
}

}  // namespace

Recipe layer_recipe(Kind kind, std::int64_t rows, std::int64_t cols) {
  if (kind == Kind::kTrained) {
    return trained_recipe(down_role(), rows, cols, 0.5);
  }
  Recipe recipe;
  recipe.kind = kind;
  recipe.rows = rows;
  recipe.cols = cols;
  recipe.deviation = 1.0 / std::sqrt(static_cast<double>(cols));
  recipe.exponent = kind == Kind::kPowerlaw ? 0.5 : 0.0;
  recipe.spikes =
      kind == Kind::kSpiked ? static_cast<int>(std::min<std::int64_t>(8, std::min(rows, cols))) : 0;
  recipe.first_spike = kind == Kind::kSpiked ? 3.0 : 0.0;
  recipe.row_spread = kind == Kind::kRowscale ? 0.3 : 0.0;
  return recipe;
}

ModelPlan plan_layer(std::int64_t experts, std::int64_t rows, std::int64_t cols, Variant variant,
                     Kind kind, const std::string& spec, std::uint64_t seed) {
  ModelPlan plan;
  plan.spec = spec;
  plan.seed = seed;
  // No num_hidden_layers: one layer of a model is no number that its tensors would confirm.
  Json config = {{"architectures", {"DeepseekV3ForCausalLM"}},
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
  ExpertPlanner planner(plan, variant);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    if (kind != Kind::kTrained) {
      planner.add(expert, kDown, layer_recipe(kind, rows, cols));
      continue;
    }
    const double place =
        experts == 1 ? 0.5 : static_cast<double>(expert) / static_cast<double>(experts - 1);
    for (const TrainedRole& role : kTrainedRoles) {
      const bool is_down = role.projection == kDown;
      planner.add(expert, role.projection,
                  trained_recipe(role, is_down ? rows : cols, is_down ? cols : rows, place));
    }
  }
  return plan;
}

}  // namespace vindex::synth
