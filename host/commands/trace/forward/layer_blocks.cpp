// Owns the feed-forward, router and output of a layer; its attention: attention_block.cpp.
#include "layer_blocks.hpp"

#include "block_steps.hpp"
#include "forward_steps.hpp"

namespace vindex::commands {

void normalise_for_ffn(const LayerTools& tools, const model::TransformerLayer& layer,
                       std::int64_t tokens, const float* x, float* out) {
  normalise(tools, {layer.ffn_norm, tools.model.norm_eps}, tokens, tools.model.hidden, x,
            tools.model.hidden, out);
}

void router_logits(const LayerTools& tools, const model::Mixture& mixture, std::int64_t tokens,
                   const float* normalised, float* logits) {
  const LinearPart router = all_of(mixture.router);
  project(tools, router, tokens, normalised, tools.model.hidden, {logits, router.count});
}

void feed_forward(const LayerTools& tools, const model::FeedForward& ffn, std::int64_t tokens,
                  const float* normalised, float* neurons, float* out) {
  const std::int64_t hidden = tools.model.hidden;
  BlockRows up(tokens, ffn.neurons);
  project(tools, all_of(ffn.gate), tokens, normalised, hidden, {neurons, ffn.neurons});
  project(tools, all_of(ffn.up), tokens, normalised, hidden, {up.data(), ffn.neurons});
  const std::span<float> gated = span_of(neurons, tokens * ffn.neurons);
  gate_neurons(tools.model.gating, tools.model.gating_limit, gated,
               span_of(up.data(), tokens * ffn.neurons), gated);
  project(tools, all_of(ffn.down), tokens, neurons, ffn.neurons, {out, hidden});
}

std::uint64_t feed_forward_bytes(const model::FeedForward& ffn, std::int64_t tokens) {
  return float_bytes(tokens, ffn.neurons);
}

void add_ffn(const LayerTools& tools, const model::TransformerLayer& layer, std::int64_t tokens,
             const float* given, float* x) {
  add_to_residual(tools, layer.ffn_post_norm, tokens, given, x);
}

void normalise_for_output(const LayerTools& tools, std::int64_t tokens, const float* x,
                          float* out) {
  normalise(tools, {tools.model.final_norm, tools.model.norm_eps}, tokens, tools.model.hidden, x,
            tools.model.hidden, out);
}

void output_logits(const LayerTools& tools, std::int64_t tokens, const float* normalised,
                   std::int64_t first, std::int64_t count, float* logits) {
  const model::Linear output{tools.model.output, tools.model.output_bias};
  project(tools, {output, first, count}, tokens, normalised, tools.model.hidden, {logits, count});
  const auto factor = static_cast<float>(tools.model.logit_factor);
  if (factor != 1.0F) {
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      logits[i] *= factor;
    }
  }
  if (tools.model.logit_soft_cap > 0.0) {
    soft_cap(tools.model.logit_soft_cap, span_of(logits, tokens * count));
  }
}

}  // namespace vindex::commands
