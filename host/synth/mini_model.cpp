// Owns the miniature Kimi-K2: shapes, names and config.json of DeepSeek-V3's layout as
// moonshotai/Kimi-K2-Instruct (fp8) and Kimi-K2-Thinking (int4) use it, and what is planted where.
#include "model_plan.hpp"
#include "random.hpp"

#include "core/json/json_document.hpp"
#include "decode/encoding/encoding.hpp"

#include <cmath>
#include <string>

namespace vindex::synth {
namespace {

// What the experts of a layer hold, by role: over three layers every role shows three kinds.
struct ExpertKinds {
  Kind gate;
  Kind up;
  Kind down;
};
constexpr ExpertKinds kExpertKinds[] = {
    {Kind::kGaussian, Kind::kRowscale, Kind::kPowerlaw},
    {Kind::kSpiked, Kind::kGaussian, Kind::kRowscale},
    {Kind::kPowerlaw, Kind::kSpiked, Kind::kGaussian},
};
// Among Gaussian experts this one has spikes: a layer's table must point at it.
constexpr std::int64_t kOddExpert = 11;

class Planner {
 public:
  Planner(ModelPlan& plan, Variant variant) : plan_(plan), variant_(variant) {}

  void vector(const std::string& name, std::int64_t length, Kind kind, double deviation) {
    PlannedTensor tensor;
    tensor.name = name;
    tensor.is_vector = true;
    tensor.encoding = decode::plain_encoding(kind == Kind::kBias ? decode::ElementType::kF32
                                                                 : decode::ElementType::kBF16);
    tensor.recipe.kind = kind;
    tensor.recipe.rows = 1;
    tensor.recipe.cols = length;
    tensor.recipe.deviation = deviation;
    add(std::move(tensor));
  }

  // `quantised`: stored in the variant's encoding, else in BF16. `strength` in [0, 1] moves the
  // kind's parameter over its range.
  void matrix(const std::string& name, std::int64_t rows, std::int64_t cols, Kind kind,
              double strength, bool quantised) {
    PlannedTensor tensor;
    tensor.name = name;
    tensor.encoding =
        quantised ? variant_encoding(variant_) : decode::plain_encoding(decode::ElementType::kBF16);
    Recipe& recipe = tensor.recipe;
    recipe.kind = kind;
    recipe.rows = rows;
    recipe.cols = cols;
    recipe.deviation = 1.0 / std::sqrt(static_cast<double>(cols));
    if (kind == Kind::kPowerlaw) {
      recipe.exponent = 0.25 + 0.75 * strength;
    } else if (kind == Kind::kSpiked) {
      recipe.spikes = 1 + static_cast<int>(7.0 * strength);
      recipe.first_spike = 3.0;
    } else if (kind == Kind::kRowscale) {
      recipe.row_spread = 0.1 + 0.4 * strength;
    }
    add(std::move(tensor));
  }

 private:
  void add(PlannedTensor tensor) {
    tensor.recipe.key = tensor_key(plan_.seed, tensor.name);
    plan_.tensors.push_back(std::move(tensor));
  }

  ModelPlan& plan_;
  Variant variant_;
};

void plan_attention(Planner& planner, const std::string& prefix, const MiniSizes& size,
                    double strength, bool quantised) {
  const std::string name = prefix + "self_attn.";
  planner.matrix(name + "q_a_proj.weight", size.query_rank, size.hidden, Kind::kPowerlaw, strength,
                 quantised);
  planner.vector(name + "q_a_layernorm.weight", size.query_rank, Kind::kNormWeight, 0.1);
  planner.matrix(name + "q_b_proj.weight", size.heads * (size.nope + size.rope), size.query_rank,
                 Kind::kSpiked, strength, quantised);
  planner.matrix(name + "kv_a_proj_with_mqa.weight", size.key_value_rank + size.rope, size.hidden,
                 Kind::kPowerlaw, strength, quantised);
  planner.vector(name + "kv_a_layernorm.weight", size.key_value_rank, Kind::kNormWeight, 0.1);
  planner.matrix(name + "kv_b_proj.weight", size.heads * (size.nope + size.value),
                 size.key_value_rank, Kind::kRowscale, strength, quantised);
  planner.matrix(name + "o_proj.weight", size.hidden, size.heads * size.value, Kind::kPowerlaw,
                 strength, quantised);
}

void plan_mlp(Planner& planner, const std::string& prefix, const MiniSizes& size,
              std::int64_t width, const ExpertKinds& kinds, double strength, bool quantised) {
  planner.matrix(prefix + "gate_proj.weight", width, size.hidden, kinds.gate, strength, quantised);
  planner.matrix(prefix + "up_proj.weight", width, size.hidden, kinds.up, strength, quantised);
  planner.matrix(prefix + "down_proj.weight", size.hidden, width, kinds.down, strength, quantised);
}

Kind expert_kind(Kind kind, std::int64_t expert) {
  return kind == Kind::kGaussian && expert == kOddExpert ? Kind::kSpiked : kind;
}

void plan_experts(Planner& planner, const std::string& prefix, const MiniSizes& size,
                  const ExpertKinds& kinds) {
  planner.matrix(prefix + "gate.weight", size.experts, size.hidden, Kind::kPowerlaw, 0.2, false);
  planner.vector(prefix + "gate.e_score_correction_bias", size.experts, Kind::kBias, 0.01);
  for (std::int64_t expert = 0; expert < size.experts; ++expert) {
    const double strength = static_cast<double>(expert) / static_cast<double>(size.experts - 1);
    plan_mlp(planner, prefix + "experts." + std::to_string(expert) + ".", size, size.expert_width,
             {expert_kind(kinds.gate, expert), expert_kind(kinds.up, expert),
              expert_kind(kinds.down, expert)},
             strength, true);
  }
}

Json mini_config(const MiniSizes& size, Variant variant) {
  Json config = {
      {"architectures", {"DeepseekV3ForCausalLM"}},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"aux_loss_alpha", 0.001},
      {"bos_token_id", 256},
      {"eos_token_id", 257},
      {"first_k_dense_replace", size.dense_layers},
      {"hidden_act", "silu"},
      {"hidden_size", size.hidden},
      {"initializer_range", 0.02},
      {"intermediate_size", size.dense_width},
      {"kv_lora_rank", size.key_value_rank},
      {"max_position_embeddings", 4096},
      {"model_type", "kimi_k2"},
      {"moe_intermediate_size", size.expert_width},
      {"moe_layer_freq", 1},
      {"n_group", 1},
      {"n_routed_experts", size.experts},
      {"n_shared_experts", size.shared},
      {"norm_topk_prob", true},
      {"num_attention_heads", size.heads},
      {"num_experts_per_tok", size.active},
      {"num_hidden_layers", size.layers},
      {"num_key_value_heads", size.heads},
      {"num_nextn_predict_layers", 0},
      {"pretraining_tp", 1},
      {"q_lora_rank", size.query_rank},
      {"qk_nope_head_dim", size.nope},
      {"qk_rope_head_dim", size.rope},
  };
  const Json quantisation = quantization_config(variant);
  if (!quantisation.is_null()) {
    config["quantization_config"] = quantisation;
  }
  config.update(Json{
      {"rms_norm_eps", 1e-6},
      {"rope_scaling", nullptr},
      {"rope_theta", 50000.0},
      {"routed_scaling_factor", 2.827},
      {"scoring_func", "sigmoid"},
      {"seq_aux", true},
      {"tie_word_embeddings", false},
      {"topk_group", 1},
      {"topk_method", "noaux_tc"},
      {"torch_dtype", "bfloat16"},
      {"use_cache", true},
      {"v_head_dim", size.value},
      {"vocab_size", size.vocabulary},
  });
  return config;
}

}  // namespace

Json quantization_config(Variant variant) {
  if (variant == Variant::kFp8) {
    return {{"activation_scheme", "dynamic"},
            {"fmt", "e4m3"},
            {"quant_method", "fp8"},
            {"weight_block_size", {128, 128}}};
  }
  if (variant == Variant::kInt4) {
    const Json weights = {{"actorder", nullptr}, {"block_structure", nullptr},
                          {"dynamic", false},    {"group_size", 32},
                          {"num_bits", 4},       {"observer", "minmax"},
                          {"strategy", "group"}, {"symmetric", true},
                          {"type", "int"}};
    return {{"config_groups",
             {{"group_0",
               {{"input_activations", nullptr},
                {"output_activations", nullptr},
                {"targets", {"Linear"}},
                {"weights", weights}}}}},
            {"format", "pack-quantized"},
            {"ignore",
             {"lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
              "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"}},
            {"kv_cache_scheme", nullptr},
            {"quant_method", "compressed-tensors"},
            {"quantization_status", "compressed"}};
  }
  return nullptr;
}

decode::Encoding variant_encoding(Variant variant) {
  switch (variant) {
    case Variant::kFp8:
      return decode::fp8_block_encoding(128, 128);
    case Variant::kInt4:
      return decode::packed_int_encoding(4, 32);
    case Variant::kQ8_0:
      return decode::plain_encoding(decode::ElementType::kQ8_0);
    case Variant::kBf16:
      break;
  }
  return decode::plain_encoding(decode::ElementType::kBF16);
}

ModelPlan plan_kimi_k2_mini(Variant variant, const std::string& spec, std::uint64_t seed) {
  const MiniSizes size;
  ModelPlan plan;
  plan.spec = spec;
  plan.seed = seed;
  plan.config = mini_config(size, variant).dump(2) + "\n";
  plan.break_after_codes_of = {"model.layers.1.mlp.experts.7.down_proj.weight",
                               "model.layers.2.mlp.experts.11.gate_proj.weight"};
  // Kimi-K2-Thinking packs the routed experts alone; fp8 covers every projection.
  const bool all = variant != Variant::kInt4;
  Planner planner(plan, variant);
  planner.matrix("model.embed_tokens.weight", size.vocabulary, size.hidden, Kind::kRowscale, 1.0,
                 false);
  for (std::int64_t layer = 0; layer < size.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const double strength = static_cast<double>(layer) / static_cast<double>(size.layers - 1);
    planner.vector(prefix + "input_layernorm.weight", size.hidden, Kind::kNormWeight, 0.1);
    plan_attention(planner, prefix, size, strength, all);
    planner.vector(prefix + "post_attention_layernorm.weight", size.hidden, Kind::kNormWeight, 0.1);
    if (layer < size.dense_layers) {
      plan_mlp(planner, prefix + "mlp.", size, size.dense_width,
               {Kind::kPowerlaw, Kind::kGaussian, Kind::kSpiked}, 0.5, all);
    } else {
      plan_experts(planner, prefix + "mlp.", size, kExpertKinds[layer - size.dense_layers]);
      plan_mlp(planner, prefix + "mlp.shared_experts.", size, size.expert_width * size.shared,
               {Kind::kPowerlaw, Kind::kPowerlaw, Kind::kPowerlaw}, strength, all);
    }
  }
  planner.vector("model.norm.weight", size.hidden, Kind::kNormWeight, 0.1);
  planner.matrix("lm_head.weight", size.vocabulary, size.hidden, Kind::kPowerlaw, 0.4, false);
  return plan;
}

}  // namespace vindex::synth
