// Owns small decoders made in memory: hidden 32, 4 heads of 16 that share 2 of keys and values, 24
// neurons, 40 entries of vocabulary. No side equals another that it could be taken for.
#pragma once

#include "core/text/text_parts.hpp"
#include "model/transformer/transformer.hpp"
#include "tests/model/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

// Tensors of a layer: names and shapes, with spaces between.
inline const std::string kPlainAttention =
    "self_attn.q_proj 64x32 self_attn.k_proj 32x32 self_attn.v_proj 32x32 self_attn.o_proj 32x64 ";
inline const std::string kPlainNorms = "input_layernorm 32 post_attention_layernorm 32 ";
inline const std::string kPlainDense = "mlp.gate_proj 24x32 mlp.up_proj 24x32 mlp.down_proj 32x24 ";
inline const std::string kPlainLayer = kPlainNorms + kPlainAttention + kPlainDense;
inline const std::string kAroundNorms =
    kPlainNorms + "pre_feedforward_layernorm 32 post_feedforward_layernorm 32 ";
inline const std::string kLatentAttention =
    "self_attn.q_a_proj 20x32 self_attn.q_a_layernorm 20 self_attn.q_b_proj 80x20 "
    "self_attn.kv_a_proj_with_mqa 26x32 self_attn.kv_a_layernorm 18 self_attn.kv_b_proj 88x18 "
    "self_attn.o_proj 32x40 ";
inline const std::string kRouted =
    "mlp.gate 4x32 mlp.experts.gate_up_proj 4x28x32 mlp.experts.down_proj 4x32x14 ";

inline const std::string kGgufAttention =
    "attn_q 64x32 attn_k 32x32 attn_v 32x32 attn_output 32x64 ";
inline const std::string kGgufNorms = "attn_norm 32 ffn_norm 32 ";
inline const std::string kGgufDense = "ffn_gate 24x32 ffn_up 24x32 ffn_down 32x24 ";
inline const std::string kGgufLayer = kGgufNorms + kGgufAttention + kGgufDense;
inline const std::string kGgufLatent =
    "attn_q_a 20x32 attn_q_a_norm 20 attn_q_b 80x20 attn_kv_a_mqa 26x32 attn_kv_a_norm 18 "
    "attn_output 32x40 ";
inline const std::string kGgufRouted =
    "ffn_gate_inp 4x32 ffn_gate_exps 4x14x32 ffn_up_exps 4x14x32 ffn_down_exps 4x32x14 ";

/// Of latent attention: 8 of 20 components of a head turn, values have 10, the latent 18.
inline const std::string kLatentKeys =
    R"("head_dim": null, "num_key_value_heads": 4, "kv_lora_rank": 18, "q_lora_rank": 20,
       "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
       "num_nextn_predict_layers": 0, )";

class MadeDecoder {
 public:
  /// Of config.json: `keys` are members of it, each with a comma behind it, which go before the
  /// usual ones.
  static MadeDecoder config(const std::string& type, const std::string& keys = "",
                            std::int64_t layers = 2) {
    MadeDecoder made;
    std::string text = "{" + keys + R"("model_type": ")" + type + R"(")";
    const auto add = [&](const std::string& key, const std::string& value) {
      if (keys.find('"' + key + '"') == std::string::npos) {
        text += ", \"" + key + "\": " + value;
      }
    };
    add("hidden_size", "32");
    add("num_hidden_layers", std::to_string(layers));
    add("num_attention_heads", "4");
    add("num_key_value_heads", "2");
    add("head_dim", "16");
    add("max_position_embeddings", "64");
    made.fixture->files().config = parse_json(text + "}", "config.json", {});
    made.layers_ = layers;
    return made;
  }
  static MadeDecoder gguf(const std::string& architecture, std::int64_t layers = 2) {
    MadeDecoder made;
    made.fixture = std::make_shared<ModelFixture>(ModelFixture::gguf(architecture));
    made.architecture_ = architecture + ".";
    made.layers_ = layers;
    made.number("embedding_length", 32).number("block_count", static_cast<std::uint64_t>(layers));
    made.number("attention.head_count", 4).number("context_length", 64);
    made.real("attention.layer_norm_rms_epsilon", 1e-5);
    return made;
  }

  MadeDecoder& number(const std::string& key, std::uint64_t value) {
    fixture->number_key(architecture_ + key, value);
    return *this;
  }
  MadeDecoder& real(const std::string& key, double value) {
    fixture->real_key(architecture_ + key, value);
    return *this;
  }
  MadeDecoder& text(const std::string& key, const std::string& value) {
    fixture->text_key(architecture_ + key, value);
    return *this;
  }

  /// `tensors` in layers [first, last); last -1: all from `first` on.
  MadeDecoder& layer(const std::string& tensors, std::int64_t first = 0, std::int64_t last = -1) {
    const std::string stem = architecture_.empty() ? "model.layers." : "blk.";
    for (std::int64_t i = first; i < (last < 0 ? layers_ : last); ++i) {
      add(stem + std::to_string(i) + ".", tensors);
    }
    return *this;
  }
  /// Embedding, final norm and output.
  MadeDecoder& ends() {
    return architecture_.empty() ? add("", "model.embed_tokens 40x32 model.norm 32 lm_head 40x32")
                                 : add("", "token_embd 40x32 output_norm 32 output 40x32");
  }
  MadeDecoder& add(const std::string& stem, const std::string& tensors) {
    const std::vector<std::string_view> words = split(tensors, ' ');
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
      const std::string name(words[i]);
      const bool is_bare = name.ends_with("bias") || name.ends_with("self_attn.sinks");
      std::vector<std::int64_t> shape;
      for (const std::string_view side : split(words[i + 1], 'x')) {
        shape.push_back(whole_number<std::int64_t>(side).value());
      }
      fixture->add(stem + name + (is_bare ? "" : ".weight"),
                   architecture_.empty() ? decode::ElementType::kBF16 : decode::ElementType::kF32,
                   shape);
    }
    return *this;
  }

  Transformer read() {
    index = fixture->index();
    return read_transformer(fixture->files(), index);
  }
  /// "E-TRACE-KEY 78"; empty where it is read.
  std::string outcome() {
    return testing::outcome_of([&] { read(); });
  }
  std::string message() {
    return testing::message_of([&] { read(); });
  }
  /// The name of a stored tensor.
  std::string name(const VectorRef& ref) {
    return ref ? fixture->files().tensors[static_cast<std::size_t>(ref.tensor)].name : "none";
  }
  std::string name(const WeightRows& rows) {
    return rows ? matrix_name(index.matrices[static_cast<std::size_t>(rows.matrix)]) : "none";
  }

  /// Shared by copies: what builds a model returns itself.
  std::shared_ptr<ModelFixture> fixture = std::make_shared<ModelFixture>();
  ModelIndex index;

 private:
  std::string architecture_;
  std::int64_t layers_ = 0;
};

inline std::vector<std::int64_t> windows_of(const Transformer& decoder) {
  std::vector<std::int64_t> windows;
  for (const TransformerLayer& layer : decoder.layers) {
    windows.push_back(layer.attention.window);
  }
  return windows;
}

}  // namespace vindex::model
