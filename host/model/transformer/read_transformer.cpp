// Owns putting a decoder together from keys, names and shapes.
#include "transformer.hpp"
#include "transformer_keys.hpp"
#include "transformer_layer.hpp"
#include "transformer_tensors.hpp"

#include "model/keys/transformer_key_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

namespace vindex::model {

namespace {

/// Names of the norms of a layer, empty where the family has none there.
struct NormNames {
  std::string_view attention, attention_post, ffn, ffn_post;
};

NormNames norm_names(const TransformerKeys& keys) {
  const bool gguf = keys.is_gguf();
  NormNames names;
  switch (keys.family().norms) {
    case LayerNorms::kBefore:
      names = gguf ? NormNames{"attn_norm", "", "ffn_norm", ""}
                   : NormNames{"input_layernorm", "", "post_attention_layernorm", ""};
      break;
    case LayerNorms::kAround:
      names = gguf ? NormNames{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"}
                   : NormNames{"input_layernorm", "post_attention_layernorm",
                               "pre_feedforward_layernorm", "post_feedforward_layernorm"};
      break;
    case LayerNorms::kAfterPrevious:
      names = gguf ? NormNames{"", "post_attention_norm", "", "post_ffw_norm"}
                   : NormNames{"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
      break;
  }
  if (!keys.family().ffn_norm.empty()) {
    names.ffn = keys.family().ffn_norm;
  }
  return names;
}

/// Layers of the decoder; those that predict further tokens lie behind them.
std::int64_t layer_count(const TransformerKeys& keys, const TransformerTensors& tensors) {
  const std::int64_t claimed = keys.count({{"num_hidden_layers"}, {"block_count"}});
  const std::int64_t extra =
      keys.size_or({{"num_nextn_predict_layers", "num_mtp_layers"}, {"nextn_predict_layers"}},
                   keys.family().extra_layers);
  const std::int64_t layers = keys.is_gguf() ? claimed - extra : claimed;
  if (layers < 1) {
    keys.refuse(fmt::format("{} layers are left of {}", layers, claimed));
  }
  if (tensors.last_layer() >= layers + extra) {
    tensors.refuse(fmt::format("there are tensors of layer {}, the keys say {} layers",
                               tensors.last_layer(), layers));
  }
  return layers;
}

void read_ends(const input::ModelFiles& files, const ModelIndex& index, const TransformerKeys& keys,
               TransformerTensors& tensors, Transformer& out) {
  const VocabularyMatrices vocabulary = vocabulary_matrices(files, index);
  if (vocabulary.input < 0 || vocabulary.output < 0) {
    tensors.refuse(vocabulary.input < 0 ? "there is no embedding (embed_tokens)"
                                        : "there is no lm_head, and none is tied to the embedding");
  }
  tensors.require_shape(vocabulary.input, -1, out.hidden);
  out.embedding = vocabulary.input;
  out.vocabulary = tensors.record(vocabulary.input).rows;
  tensors.require_shape(vocabulary.output, out.vocabulary, out.hidden);
  const Linear output = tensors.rows_of(vocabulary.output, {0, 1, out.vocabulary});
  out.output = output.weight;
  out.output_bias = output.bias;
  out.final_norm = tensors.vector(-1, keys.is_gguf() ? "output_norm" : "norm", out.hidden);
}

void read_constants(const input::ModelFiles& files, const TransformerKeys& keys, Transformer& out) {
  const TransformerFamily& family = keys.family();
  out.norm_eps = keys.positive_or({{"rms_norm_eps"}, {"attention.layer_norm_rms_epsilon"}},
                                  keys.is_gguf() ? 0.0 : family.norm_eps);
  if (out.norm_eps == 0.0) {
    keys.refuse("there is no attention.layer_norm_rms_epsilon");
  }
  out.norm_offset = family.norm_offset;
  out.gating = keys.gating();
  out.gating_limit =
      out.gating == Gating::kClamped ? keys.positive_or({{"swiglu_limit"}, {}}, 7.0) : 0.0;
  out.embedding_factor = embedding_scale(files, out.hidden).factor;
  if (family.scale == ScoreScale::kMultiplier) {
    out.residual_factor = keys.positive_or({{"residual_multiplier"}, {"residual_scale"}}, 1.0);
    out.logit_factor = 1.0 / keys.positive_or({{"logits_scaling"}, {"logit_scale"}}, 1.0);
  }
  if (family.logit_cap_key) {
    out.logit_soft_cap =
        keys.cap_or({{"final_logit_softcapping"}, {"final_logit_softcapping"}}, family.logit_cap);
  }
  out.context = keys.count_if({{"max_position_embeddings"}, {"context_length"}}).value_or(0);
}

/// Biases are added where they are stored. Classes of transformers have them where a key says so,
/// and leave the others out; llama.cpp adds what is there.
void warn_of_biases(const TransformerKeys& keys, Transformer& out) {
  if (keys.is_gguf()) {
    return;
  }
  const TransformerFamily& family = keys.family();
  const bool attention = keys.boolean({{"attention_bias"}, {}}).value_or(family.sinks);
  const bool query =
      attention || (family.biased && keys.boolean({{"qkv_bias"}, {}}).value_or(true));
  const bool dense = keys.boolean({{"mlp_bias"}, {}}).value_or(false);
  const auto is_stored = [](std::initializer_list<const Linear*> linears) {
    return std::any_of(linears.begin(), linears.end(),
                       [](const Linear* linear) { return static_cast<bool>(linear->bias); });
  };
  std::string kinds = out.output_bias ? ", the output" : "";
  const auto any_layer = [&](bool expected, const char* kind, auto has_biases) {
    if (!expected && std::any_of(out.layers.begin(), out.layers.end(), has_biases)) {
      kinds += std::string(", ") + kind;
    }
  };
  any_layer(query, "queries, keys and values (attention_bias)", [&](const TransformerLayer& layer) {
    const Attention& a = layer.attention;
    return is_stored({&a.q, &a.k, &a.v, &a.q_a, &a.kv_a});
  });
  any_layer(attention, "outputs of attention (attention_bias)",
            [&](const TransformerLayer& layer) { return is_stored({&layer.attention.o}); });
  any_layer(dense, "feed-forwards (mlp_bias)", [&](const TransformerLayer& layer) {
    return layer.dense && is_stored({&layer.dense->gate, &layer.dense->up, &layer.dense->down});
  });
  if (!kinds.empty()) {
    out.warnings.push_back(
        {"W-TRACE-BIAS", fmt::format("biases are stored that no key asks for, and are added: {}; "
                                     "transformers leaves them out",
                                     kinds.substr(2))});
  }
}

}  // namespace

Transformer read_transformer(const input::ModelFiles& files, const ModelIndex& index) {
  const TransformerKeys keys(files);
  TransformerTensors tensors(files, index, keys.dialect());
  Transformer out;
  out.family = keys.family_name();
  out.hidden = keys.count({{"hidden_size"}, {"embedding_length"}});
  read_constants(files, keys, out);
  read_ends(files, index, keys, tensors, out);
  const std::int64_t layers = layer_count(keys, tensors);
  const NormNames norms = norm_names(keys);
  AttentionReader attention(files, keys, tensors, out.hidden, layers);
  FeedForwardReader feed_forwards(files, keys, tensors, out.hidden);
  for (std::int64_t i = 0; i < layers; ++i) {
    TransformerLayer layer;
    layer.number = static_cast<std::int32_t>(i);
    const auto norm = [&](std::string_view name) {
      return name.empty() ? VectorRef() : tensors.vector(layer.number, name, out.hidden);
    };
    layer.attention_norm = norm(norms.attention);
    layer.attention_post_norm = norm(norms.attention_post);
    layer.attention = attention.read(layer.number);
    layer.ffn_norm = norm(norms.ffn);
    layer.ffn_post_norm = norm(norms.ffn_post);
    feed_forwards.read(layer);
    out.layers.push_back(std::move(layer));
  }
  tensors.require_all_used(layers);
  out.warnings = trace_key_warnings(files, keys.family_name());
  warn_of_biases(keys, out);
  return out;
}

}  // namespace vindex::model
