// Owns feed-forwards: dense, or a router with its experts and the shared one.
#include "transformer_layer.hpp"

#include <fmt/format.h>

namespace vindex::model {

FeedForwardReader::FeedForwardReader(const input::ModelFiles& files, const TransformerKeys& keys,
                                     TransformerTensors& tensors, std::int64_t hidden)
    : files_(files), keys_(keys), tensors_(tensors), hidden_(hidden) {
  if (keys.family().gating == Gating::kClamped &&
      keys.positive_or({{"swiglu_alpha"}, {}}, 1.702) != 1.702) {
    keys.refuse("a swiglu_alpha other than 1.702 is not known");
  }
}

void FeedForwardReader::read(TransformerLayer& layer) {
  const std::int64_t router = tensors_.find(layer.number, Block::kRouter, "router");
  if (router >= 0) {
    layer.mixture = read_mixture(layer.number, router);
    return;
  }
  layer.dense = tensors_.feed_forward(layer.number, Block::kDenseMlp, -1, hidden_);
  if (!layer.dense->gate) {
    tensors_.refuse(
        fmt::format("layer {} has neither a router nor gate_proj and up_proj", layer.number));
  }
}

Mixture FeedForwardReader::read_mixture(std::int32_t layer, std::int64_t router) {
  if (!routers_) {
    routers_ = std::make_unique<const ModelRouters>(model_routers(files_, ""));
  }
  Mixture out;
  tensors_.require_shape(router, -1, hidden_);
  const std::int64_t experts = tensors_.record(router).rows;
  const auto said =
      keys_.count_if({{"n_routed_experts", "num_local_experts", "num_experts"}, {"expert_count"}});
  if (said && *said != experts) {
    tensors_.refuse(fmt::format("{} has rows for {} experts, the keys say {}",
                                tensors_.name(router), experts, *said));
  }
  out.router = tensors_.rows_of(router, {0, 1, experts});
  read_selection(layer, out);
  require_rule(layer, out.rule, experts);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    FeedForward one = tensors_.feed_forward(layer, Block::kRoutedExpert,
                                            static_cast<std::int32_t>(expert), hidden_);
    if (!one.gate) {
      tensors_.refuse(fmt::format("layer {} has no expert {} of {}", layer, expert, experts));
    }
    if (!out.experts.empty() && one.neurons != out.experts.front().neurons) {
      tensors_.refuse(fmt::format("{} has {} neurons, the first expert has {}",
                                  tensors_.name(one.gate.weight.matrix), one.neurons,
                                  out.experts.front().neurons));
    }
    out.experts.push_back(one);
  }
  if (FeedForward shared = tensors_.feed_forward(layer, Block::kSharedExpert, -1, hidden_);
      shared.gate) {
    out.shared = shared;
    if (keys_.family().shared_gate) {
      out.shared_gate = tensors_.vector(
          layer, keys_.is_gguf() ? "ffn_gate_inp_shexp" : "mlp.shared_expert_gate", hidden_);
    }
  }
  return out;
}

/// The rule, and the biases that choose.
void FeedForwardReader::read_selection(std::int32_t layer, Mixture& out) {
  if (routers_->hashed_layers.contains(layer)) {
    tensors_.refuse(fmt::format("layer {} takes its experts from a table of tokens", layer));
  }
  out.rule = routers_->rule;
  if (!out.rule.biased) {
    return;
  }
  const auto bias = routers_->bias_tensors.find(layer);
  if (bias != routers_->bias_tensors.end()) {
    out.selection_bias = tensors_.stored_vector(bias->second, out.router.weight.rows.count);
  } else if (routers_->expects_bias) {
    tensors_.refuse(fmt::format("layer {} has no biases that choose experts", layer));
  } else {
    out.rule.biased = false;
  }
}

void FeedForwardReader::require_rule(std::int32_t layer, const RouterRule& rule,
                                     std::int64_t experts) const {
  if (rule.top_k > experts) {
    keys_.refuse(
        fmt::format("a token has {} experts, layer {} has {}", rule.top_k, layer, experts));
  }
  if (rule.groups > 1 && (experts % rule.groups != 0 || rule.chosen_groups > rule.groups ||
                          rule.chosen_groups * (experts / rule.groups) < rule.top_k)) {
    keys_.refuse(fmt::format("{} of {} groups of layer {}'s {} experts do not hold {} for a token",
                             rule.chosen_groups, rule.groups, layer, experts, rule.top_k));
  }
}

}  // namespace vindex::model
