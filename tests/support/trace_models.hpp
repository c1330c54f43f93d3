// Owns small models on disk that a forward pass can follow: a dense one, and a mixture of experts.
#pragma once

#include "float_model.hpp"
#include "temporary_folder.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::testing {

struct TraceModelShape {
  std::int64_t hidden = 32, neurons = 48, heads = 4, kv_heads = 2, vocabulary = 50;
  int layers = 3;
  int experts = 0;  ///< of each layer; 0: dense
  int top_k = 2;
};

/// A folder `name` in the layout of Hugging Face: llama, or mixtral where there are experts.
inline std::string write_trace_model(const TemporaryFolder& folder, const std::string& name,
                                     const TraceModelShape& shape = {}, unsigned seed = 1) {
  const std::int64_t head = shape.hidden / shape.heads;
  std::vector<FloatTensor> tensors;
  const auto add = [&](const std::string& tensor, const std::vector<std::int64_t>& sides) {
    tensors.push_back(noise_tensor(tensor, sides, seed * 1000 + unsigned(tensors.size())));
    if (sides.size() == 1) {
      for (float& value : tensors.back().values) {
        value += 1.0F;  // a norm
      }
    }
  };
  const auto add_ffn = [&](const std::string& gate, const std::string& up,
                           const std::string& down) {
    add(gate, {shape.neurons, shape.hidden});
    add(up, {shape.neurons, shape.hidden});
    add(down, {shape.hidden, shape.neurons});
  };
  add("model.embed_tokens.weight", {shape.vocabulary, shape.hidden});
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {shape.hidden});
    add(prefix + "post_attention_layernorm.weight", {shape.hidden});
    add(prefix + "self_attn.q_proj.weight", {shape.heads * head, shape.hidden});
    add(prefix + "self_attn.k_proj.weight", {shape.kv_heads * head, shape.hidden});
    add(prefix + "self_attn.v_proj.weight", {shape.kv_heads * head, shape.hidden});
    add(prefix + "self_attn.o_proj.weight", {shape.hidden, shape.heads * head});
    if (shape.experts == 0) {
      const std::string mlp = prefix + "mlp.";
      add_ffn(mlp + "gate_proj.weight", mlp + "up_proj.weight", mlp + "down_proj.weight");
      continue;
    }
    add(prefix + "block_sparse_moe.gate.weight", {shape.experts, shape.hidden});
    for (int expert = 0; expert < shape.experts; ++expert) {
      const std::string own = prefix + "block_sparse_moe.experts." + std::to_string(expert) + ".";
      add_ffn(own + "w1.weight", own + "w3.weight", own + "w2.weight");
    }
  }
  add("model.norm.weight", {shape.hidden});
  add("lm_head.weight", {shape.vocabulary, shape.hidden});

  const auto key = [](const char* of, std::int64_t value) {
    return ",\"" + std::string(of) + "\":" + std::to_string(value);
  };
  std::string config =
      shape.experts == 0 ? R"({"model_type":"llama")" : R"({"model_type":"mixtral")";
  config += key("hidden_size", shape.hidden) + key("intermediate_size", shape.neurons) +
            key("num_attention_heads", shape.heads) + key("num_key_value_heads", shape.kv_heads) +
            key("vocab_size", shape.vocabulary) + key("num_hidden_layers", shape.layers) +
            key("max_position_embeddings", 4096) +
            R"(,"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":10000.0)" +
            R"(,"tie_word_embeddings":false)";
  if (shape.experts > 0) {
    config += key("num_local_experts", shape.experts) + key("num_experts_per_tok", shape.top_k);
  }
  folder.write(name + "/config.json", config + "}");
  write_safetensors(folder / (name + "/model.safetensors"), tensors);
  return folder / name;
}

}  // namespace vindex::testing
