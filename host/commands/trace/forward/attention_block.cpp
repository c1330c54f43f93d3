// Owns the attention of a layer with whole projections of queries, keys and values, and what is
// around every attention: its norms, its output's projection, the residual stream.
#include "attention_steps.hpp"
#include "layer_blocks.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::commands {

void turn_heads(const model::Rope& rope, Rotations& rotations,
                std::span<const std::int64_t> lengths, const Turned& heads) {
  if (rope.dims == 0) {
    return;
  }
  float* row = heads.values + heads.first;
  for (const std::int64_t length : lengths) {
    const RotationTable& table = rotations.of_length(length);
    for (std::int64_t position = 0; position < length; ++position, row += heads.stride) {
      for (std::int64_t head = 0; head < heads.count; ++head) {
        rotate(table, position, rope.interleaved, row + head * heads.step);
      }
    }
  }
}

void attend_prompts(const LayerTools& tools, const model::Attention& attention,
                    std::span<const std::int64_t> lengths, const Heads& heads) {
  std::int64_t token = 0;
  for (const std::int64_t length : lengths) {
    tools.backend.attention({.q = heads.q + token * heads.count * attention.head_dim,
                             .k = heads.k + token * heads.kv_count * attention.head_dim,
                             .v = heads.v + token * heads.kv_count * attention.value_dim,
                             .out = heads.out + token * heads.count * attention.value_dim,
                             .tokens = length,
                             .heads = heads.count,
                             .kv_heads = heads.kv_count,
                             .head_dim = attention.head_dim,
                             .value_dim = attention.value_dim,
                             .scale = attention.scale,
                             .soft_cap = attention.soft_cap,
                             .window = attention.window,
                             .sinks = heads.sinks},
                            tools.stop);
    token += length;
  }
}

const float* sinks_of(const LayerTools& tools, const model::Attention& attention) {
  const std::span<const float> sinks = tools.weights.vector(attention.sinks);
  expects(sinks.empty() || std::ssize(sinks) == attention.heads, "a sink for each head");
  return sinks.empty() ? nullptr : sinks.data();
}

namespace {

/// Queries or keys, in place: each head by itself or all as one, as the norm's length says.
void normalise_heads(const LayerTools& tools, const model::VectorRef& norm, std::int64_t tokens,
                     BlockRows& heads) {
  const std::span<const float> weight = tools.weights.vector(norm);
  if (weight.empty()) {
    return;
  }
  const std::int64_t length = std::ssize(weight);
  expects(heads.width() % length == 0, "a norm of a head or of all");
  for (std::int64_t i = 0; i < tokens * (heads.width() / length); ++i) {
    const std::span<float> some = span_of(heads.data() + i * length, length);
    rms_norm(some, weight, tools.model.norm_eps, tools.model.norm_offset, some);
  }
}

/// Queries of whole prompts, longer the later they stand, where attention says so.
void grow_queries(const model::Attention& attention, std::span<const std::int64_t> lengths,
                  BlockRows& q) {
  if (attention.growth == 0.0) {
    return;
  }
  float* row = q.data();
  for (const std::int64_t length : lengths) {
    for (std::int64_t position = 0; position < length; ++position, row += q.width()) {
      const auto periods = static_cast<double>(position / attention.growth_context);
      const auto factor = static_cast<float>(1.0 + attention.growth * std::log1p(periods));
      std::for_each(row, row + q.width(), [&](float& value) { value *= factor; });
    }
  }
}

/// Within +-clip, in place, where attention clips.
void clip_values(const model::Attention& attention, std::int64_t tokens, BlockRows& rows) {
  if (attention.clip > 0.0) {
    const auto limit = static_cast<float>(attention.clip);
    for (float& value : span_of(rows.data(), tokens * rows.width())) {
      value = std::clamp(value, -limit, limit);
    }
  }
}

void attend_plainly(const LayerTools& tools, const model::Attention& attention,
                    const BlockOfPrompts& block) {
  BlockRows q(block.tokens, attention.heads * attention.head_dim);
  BlockRows k(block.tokens, attention.kv_heads * attention.head_dim);
  BlockRows v(block.tokens, attention.kv_heads * attention.value_dim);
  const auto into = [&](const model::Linear& linear, BlockRows& rows) {
    project(tools, all_of(linear), block.tokens, block.normalised.data(), tools.model.hidden,
            {rows.data(), rows.width()});
  };
  into(attention.q, q);
  into(attention.k, k);
  into(attention.v, v);
  normalise_heads(tools, attention.q_norm, block.tokens, q);
  normalise_heads(tools, attention.k_norm, block.tokens, k);
  for (BlockRows* rows : {&q, &k, &v}) {
    clip_values(attention, block.tokens, *rows);
  }
  Rotations rotations(attention.rope, block.lengths);
  turn_heads(attention.rope, rotations, block.lengths,
             {q.data(), q.width(), 0, attention.heads, attention.head_dim});
  grow_queries(attention, block.lengths, q);
  turn_heads(attention.rope, rotations, block.lengths,
             {k.data(), k.width(), 0, attention.kv_heads, attention.head_dim});
  attend_prompts(tools, attention, block.lengths,
                 {.q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .out = block.out.data(),
                  .count = attention.heads,
                  .kv_count = attention.kv_heads,
                  .sinks = sinks_of(tools, attention)});
}

/// Floats per token that attend() holds at a time.
std::int64_t attend_width(const model::Transformer& model, const model::Attention& attention) {
  const std::int64_t kept = model.hidden + attention.heads * attention.value_dim;
  if (!attention.is_latent()) {
    return kept + attention.heads * attention.head_dim +
           attention.kv_heads * (attention.head_dim + attention.value_dim);
  }
  return kept + latent_width(attention);
}

}  // namespace

void attend(const LayerTools& tools, const model::TransformerLayer& layer,
            std::span<const std::int64_t> prompt_lengths, float* x) {
  const model::Attention& attention = layer.attention;
  const std::int64_t hidden = tools.model.hidden;
  std::int64_t tokens = 0;
  for (const std::int64_t length : prompt_lengths) {
    tokens += length;
  }
  BlockRows normalised(tokens, hidden);
  normalise(tools, {layer.attention_norm, tools.model.norm_eps}, tokens, hidden, x, hidden,
            normalised.data());
  BlockRows out(tokens, attention.heads * attention.value_dim);
  const BlockOfPrompts block{prompt_lengths, tokens, normalised, out};
  if (attention.is_latent()) {
    attend_latently(tools, attention, block);
  } else {
    attend_plainly(tools, attention, block);
  }
  // The normalised rows have served: what the layer adds takes their place.
  project(tools, all_of(attention.o), tokens, out.data(), out.width(), {normalised.data(), hidden});
  add_to_residual(tools, layer.attention_post_norm, tokens, normalised.data(), x);
}

std::uint64_t attend_bytes(const model::Transformer& model, const model::TransformerLayer& layer,
                           std::int64_t tokens, std::int64_t longest) {
  // A table of rotations: a cosine and a sine for each pair of components.
  return float_bytes(tokens, attend_width(model, layer.attention)) +
         float_bytes(longest, layer.attention.rope.dims) + float_bytes(1, model.hidden);
}

}  // namespace vindex::commands
