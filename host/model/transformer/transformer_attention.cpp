// Owns attention: heads, scales, windows, norms and rotations, plain, fused and latent.
#include "transformer_layer.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::model {

namespace {

/// Published files of gemma3 leave out what its class takes by default.
std::int64_t head_count(const TransformerKeys& keys) {
  const auto said = keys.count_if({{"num_attention_heads"}, {"attention.head_count"}});
  const std::int64_t own = keys.family().heads;
  return said || own == 0 ? keys.count({{"num_attention_heads"}, {"attention.head_count"}}) : own;
}

}  // namespace

AttentionReader::AttentionReader(const input::ModelFiles& files, const TransformerKeys& keys,
                                 TransformerTensors& tensors, std::int64_t hidden,
                                 std::int64_t layers)
    : keys_(keys),
      tensors_(tensors),
      hidden_(hidden),
      layers_(layers),
      heads_(head_count(keys)),
      windows_(keys),
      rope_(read_rope_settings(files, keys, false)),
      local_rope_(read_rope_settings(files, keys, true)) {
  if (keys.boolean({{"use_bidirectional_attention"}, {}}).value_or(false) ||
      !keys.boolean({{"is_causal"}, {"attention.causal"}}).value_or(true)) {
    keys.refuse(fmt::format(
        "{} says that attention looks ahead, where it is causal here",
        keys.is_gguf() ? "attention.causal" : "use_bidirectional_attention or is_causal"));
  }
}

Attention AttentionReader::read(std::int32_t layer) {
  const TransformerFamily& family = keys_.family();
  Attention out;
  out.heads = heads_;
  out.window = windows_.at(layer);
  if (family.latent) {
    read_latent(layer, out);
  } else {
    const std::int64_t fused = tensors_.find(layer, Block::kAttention, "qkv_proj");
    if (fused >= 0) {
      read_fused(layer, fused, out);
    } else {
      read_plain(layer, out);
    }
    out.o = tensors_.linear(layer, Block::kAttention, "o_proj", hidden_, out.heads * out.value_dim);
    out.rope = rope_of(windows_.is_sliding(layer) ? local_rope_ : rope_, out.head_dim);
    out.scale = plain_scale(out.head_dim);
    read_head_norms(layer, out);
    out.growth = rope_.growth;
    out.growth_context =
        rope_.growth == 0.0 ? 1 : static_cast<std::int64_t>(rope_.original_context);
    if (family.clip_key || keys_.is_gguf()) {
      out.clip = keys_.cap_or({{"clip_qkv"}, {"attention.clamp_kqv"}}, 0.0);
    }
  }
  if (family.sinks) {
    out.sinks = tensors_.vector(layer, named("self_attn.sinks", "attn_sinks"), heads_);
  }
  if (family.attention_cap_key) {
    out.soft_cap = keys_.cap_or({{"attn_logit_softcapping"}, {"attn_logit_softcapping"}},
                                family.attention_cap);
  }
  return out;
}

/// Components of a head whose queries are `rows` of `name`.
std::int64_t AttentionReader::head_dim_of(std::int64_t rows, const std::string& name) const {
  if (rows % heads_ != 0) {
    tensors_.refuse(fmt::format("{} heads do not divide {} rows of {}", heads_, rows, name));
  }
  const std::int64_t head_dim = rows / heads_;
  if (const auto said = keys_.count_if({{"head_dim"}, {"attention.key_length"}});
      said && *said != head_dim) {
    tensors_.refuse(fmt::format("{} has heads of {} rows, the keys say {}", name, head_dim, *said));
  }
  return head_dim;
}

std::int64_t AttentionReader::kv_heads_of(std::int64_t rows, std::int64_t head_dim,
                                          const std::string& name) const {
  const std::int64_t kv_heads = rows / head_dim;
  if (rows % head_dim != 0 || heads_ % kv_heads != 0) {
    tensors_.refuse(fmt::format("{} has {} rows, which are no heads of {} that {} heads share",
                                name, rows, head_dim, heads_));
  }
  if (const auto said = keys_.count_if({{"num_key_value_heads"}, {"attention.head_count_kv"}});
      said && *said != kv_heads) {
    tensors_.refuse(fmt::format("{} has {} heads, the keys say {}", name, kv_heads, *said));
  }
  return kv_heads;
}

void AttentionReader::read_plain(std::int32_t layer, Attention& out) {
  const TransformerFamily& family = keys_.family();
  const bool biased =
      (family.biased && keys_.boolean({{"qkv_bias", "attention_bias"}, {}}).value_or(true)) ||
      keys_.boolean({{"attention_bias"}, {}}).value_or(false);
  const auto part = [&](std::string_view role) {
    return tensors_.linear(layer, Block::kAttention, role, -1, hidden_, biased);
  };
  const auto rows = [](const Linear& linear) { return linear.weight.rows.count; };
  const auto name = [&](const Linear& linear) { return tensors_.name(linear.weight.matrix); };
  out.q = part("q_proj");
  out.k = part("k_proj");
  out.v = part("v_proj");
  out.head_dim = head_dim_of(rows(out.q), name(out.q));
  out.kv_heads = kv_heads_of(rows(out.k), out.head_dim, name(out.k));
  if (rows(out.v) % out.kv_heads != 0) {
    tensors_.refuse(fmt::format("{} heads do not divide {} rows of {}", out.kv_heads, rows(out.v),
                                name(out.v)));
  }
  out.value_dim = rows(out.v) / out.kv_heads;
}

void AttentionReader::read_fused(std::int32_t layer, std::int64_t matrix, Attention& out) {
  tensors_.require_shape(matrix, -1, hidden_);
  const std::int64_t rows = tensors_.record(matrix).rows;
  const std::int64_t o = tensors_.matrix(layer, Block::kAttention, "o_proj", hidden_, -1);
  out.head_dim = head_dim_of(tensors_.record(o).cols, tensors_.name(o));
  out.value_dim = out.head_dim;
  const std::int64_t queries = heads_ * out.head_dim;
  const std::int64_t rest = rows - queries;
  if (rest < 2 || rest % 2 != 0) {
    tensors_.refuse(fmt::format("{} has {} rows, of which {} are queries", tensors_.name(matrix),
                                rows, queries));
  }
  out.kv_heads = kv_heads_of(rest / 2, out.head_dim, tensors_.name(matrix));
  out.q = tensors_.rows_of(matrix, {0, 1, queries});
  out.k = tensors_.rows_of(matrix, {queries, 1, rest / 2});
  out.v = tensors_.rows_of(matrix, {queries + rest / 2, 1, rest / 2});
}

double AttentionReader::plain_scale(std::int64_t head_dim) const {
  const double root = 1.0 / std::sqrt(static_cast<double>(head_dim));
  switch (keys_.family().scale) {
    case ScoreScale::kRoot:
      break;
    case ScoreScale::kQueryScalar:
      if (keys_.is_gguf()) {  // no key says it
        const bool is_wide = layers_ == keys_.family().wide_head_layers;
        return is_wide ? 1.0 / std::sqrt(static_cast<double>(hidden_ / heads_)) : root;
      }
      return 1.0 / std::sqrt(keys_.positive_or({{"query_pre_attn_scalar"}, {}}, 256.0));
    case ScoreScale::kMultiplier: {
      const auto said = keys_.number({{"attention_multiplier"}, {"attention.scale"}});
      if (keys_.is_gguf()) {
        return said && *said != 0.0 ? *said : root;
      }
      return said.value_or(1.0);
    }
  }
  return root;
}

Rope AttentionReader::rope_of(const RopeSettings& settings, std::int64_t head_dim) const {
  std::int64_t dims = head_dim;
  if (keys_.is_gguf()) {
    dims = keys_.count_if({{}, {"rope.dimension_count"}}).value_or(head_dim);
  } else if (settings.partial < 1.0) {
    dims = static_cast<std::int64_t>(static_cast<double>(head_dim) * settings.partial);
  } else if (settings.partial > 1.0) {
    keys_.refuse(fmt::format("partial_rotary_factor is {}", settings.partial));
  }
  if (dims < 2 || dims % 2 != 0 || dims > head_dim) {
    keys_.refuse(fmt::format("{} components of a head of {} cannot turn in pairs", dims, head_dim));
  }
  return make_rope(keys_, settings, dims);
}

void AttentionReader::read_head_norms(std::int32_t layer, Attention& out) {
  const HeadNorms norms = keys_.family().head_norms;
  if (norms == HeadNorms::kNone) {
    return;
  }
  const bool each = norms == HeadNorms::kEachHead;
  out.q_norm = tensors_.vector(layer, named("self_attn.q_norm", "attn_q_norm"),
                               each ? out.head_dim : out.heads * out.head_dim);
  out.k_norm = tensors_.vector(layer, named("self_attn.k_norm", "attn_k_norm"),
                               each ? out.head_dim : out.kv_heads * out.head_dim);
}

void AttentionReader::read_latent(std::int32_t layer, Attention& out) {
  const bool is_gguf = keys_.is_gguf();
  const std::int64_t turning = keys_.count({{"qk_rope_head_dim"}, {"rope.dimension_count"}});
  out.kv_heads = heads_;
  out.latent_rank = keys_.count({{"kv_lora_rank"}, {"attention.kv_lora_rank"}});
  out.value_dim =
      keys_.count({{"v_head_dim"}, {"attention.value_length_mla", "attention.value_length"}});
  // Without the keys of MLA, GGUF gives the sizes of heads as they are after kv_b.
  out.head_dim = is_gguf ? keys_.count({{}, {"attention.key_length_mla", "attention.key_length"}})
                         : keys_.count({{"qk_nope_head_dim"}, {}}) + turning;
  if (turning % 2 != 0 || turning >= out.head_dim) {
    keys_.refuse(
        fmt::format("{} components of a head of {} cannot turn in pairs", turning, out.head_dim));
  }
  const auto linear = [&](std::string_view role, std::int64_t rows, std::int64_t cols) {
    return tensors_.linear(layer, Block::kAttention, role, rows, cols);
  };
  const std::int64_t query_rows = heads_ * out.head_dim;
  if (tensors_.find(layer, Block::kAttention, "q_proj") >= 0) {
    out.q = linear("q_proj", query_rows, hidden_);
  } else {
    out.q_a = linear("q_a_proj", -1, hidden_);
    const std::int64_t rank = out.q_a.weight.rows.count;
    out.q_a_norm = tensors_.vector(layer, named("self_attn.q_a_layernorm", "attn_q_a_norm"), rank);
    out.q_b = linear("q_b_proj", query_rows, rank);
  }
  out.kv_a = linear("kv_a_proj", out.latent_rank + turning, hidden_);
  out.kv_a_norm =
      tensors_.vector(layer, named("self_attn.kv_a_layernorm", "attn_kv_a_norm"), out.latent_rank);
  read_latent_values(layer, out.head_dim - turning, out);
  out.o = linear("o_proj", hidden_, heads_ * out.value_dim);
  out.rope = make_rope(keys_, rope_, turning);
  if (keys_.family().turn_key && !keys_.boolean({{"rope_interleave"}, {}}).value_or(true)) {
    out.rope.interleaved = false;
  }
  // transformers leaves the epsilon of these two norms as it is by default.
  out.latent_eps =
      is_gguf ? keys_.positive_or({{}, {"attention.layer_norm_rms_epsilon"}}, 1e-6) : 1e-6;
  out.scale = latent_score_factor(rope_) / std::sqrt(static_cast<double>(out.head_dim));
}

/// kv_b, or its two halves by heads.
void AttentionReader::read_latent_values(std::int32_t layer, std::int64_t key_dim, Attention& out) {
  if (tensors_.find(layer, Block::kAttention, "kv_b_proj") >= 0) {
    out.kv_b = tensors_.linear(layer, Block::kAttention, "kv_b_proj",
                               heads_ * (key_dim + out.value_dim), out.latent_rank);
    return;
  }
  out.k_b_heads = tensors_.slices(layer, Block::kAttention, "k_b_proj");
  out.v_b_heads = tensors_.slices(layer, Block::kAttention, "v_b_proj");
  const auto heads = static_cast<std::size_t>(heads_);
  if (!keys_.is_gguf() || out.k_b_heads.size() != heads || out.v_b_heads.size() != heads) {
    tensors_.refuse(
        fmt::format("layer {} has neither kv_b_proj nor {} heads of its halves", layer, heads_));
  }
  // llama.cpp's converter transposes the half of the keys.
  out.k_b_transposed = true;
  for (std::size_t i = 0; i < heads; ++i) {
    tensors_.require_shape(out.k_b_heads[i], out.latent_rank, key_dim);
    tensors_.require_shape(out.v_b_heads[i], out.value_dim, out.latent_rank);
  }
}

}  // namespace vindex::model
