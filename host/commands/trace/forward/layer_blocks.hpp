// Owns what a layer does with a block of whole prompts, given the weights of the stage: attention
// with its norms and rotations, the norm before the feed-forward, router logits, and a gated
// feed-forward. Composes commands/trace/forward/forward_steps.hpp and backend/forward_backend.hpp
// by model/transformer/transformer.hpp; holds nothing between calls.
#pragma once

#include "layer_tools.hpp"

#include "model/transformer/transformer.hpp"

#include <cstdint>
#include <span>

namespace vindex::commands {

/// Adds the attention of `layer` (its norms, residual_factor) to the residual stream x
/// [sum of prompt_lengths, hidden].
void attend(const LayerTools& tools, const model::TransformerLayer& layer,
            std::span<const std::int64_t> prompt_lengths, float* x);
/// Host memory that attend() takes for a block of `tokens` tokens in prompts of at most `longest`.
std::uint64_t attend_bytes(const model::Transformer& model, const model::TransformerLayer& layer,
                           std::int64_t tokens, std::int64_t longest);

/// The feed-forward's input: out [tokens, hidden] = ffn_norm(x).
void normalise_for_ffn(const LayerTools& tools, const model::TransformerLayer& layer,
                       std::int64_t tokens, const float* x, float* out);

/// [tokens, experts], with the router's own bias, before scores and selection_bias.
void router_logits(const LayerTools& tools, const model::Mixture& mixture, std::int64_t tokens,
                   const float* normalised, float* logits);

/// out [tokens, hidden] of `normalised`; the neurons before `down` are left in `neurons` [tokens,
/// ffn.neurons].
void feed_forward(const LayerTools& tools, const model::FeedForward& ffn, std::int64_t tokens,
                  const float* normalised, float* neurons, float* out);
/// Host memory beside its arrays.
std::uint64_t feed_forward_bytes(const model::FeedForward& ffn, std::int64_t tokens);

/// Adds what the feed-forward of a layer gave to the residual stream: ffn_post_norm,
/// residual_factor.
void add_ffn(const LayerTools& tools, const model::TransformerLayer& layer, std::int64_t tokens,
             const float* given, float* x);

/// out [tokens, hidden] = final_norm(x).
void normalise_for_output(const LayerTools& tools, std::int64_t tokens, const float* x, float* out);
/// Logits of vocabulary entries [first, first + count) for rows that final_norm made: [tokens,
/// count], with output_bias, logit_factor and logit_soft_cap.
void output_logits(const LayerTools& tools, std::int64_t tokens, const float* normalised,
                   std::int64_t first, std::int64_t count, float* logits);

}  // namespace vindex::commands
