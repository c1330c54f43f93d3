// Owns what a model says of its routers: how logits become experts and weights, by its family and
// by the keys of config.json or of a GGUF file, and where the biases lie that choose experts.
// Families and their sources: docs/commands/routing.md.
#pragma once

#include "architecture/router_rule.hpp"
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

inline constexpr std::string_view kGiveRouterRule =
    "; pass --top-k K --scoring softmax|sigmoid instead of --model (--normalise where weights are "
    "divided by their sum)";

struct ModelRouters {
  RouterRule rule;
  std::string family;  ///< whose rule it is
  /// Per layer, the stored tensor with a bias per expert, where the rule is biased.
  std::map<std::int32_t, std::int32_t> bias_tensors;
  /// The family adds a bias per expert to scores that choose: a layer without one is a surprise.
  bool expects_bias = false;
  std::vector<Warning> warnings;  ///< own_key_warnings()
  /// Layers whose experts come from the token and not from logits (DeepSeek-V4's first ones).
  std::set<std::int32_t> hashed_layers;
};

/// The rule of the model in `files`, from headers alone. A rule that is biased where no bias is
/// stored becomes one without. Errors: ConfigurationError (78) E-ROUTER-UNKNOWN for a family whose
/// rule is not known, or is none of these (phimoe), saying what to pass instead; E-ROUTER-KEY for a
/// key that must be there, has a value of another type, or holds what is not known. Messages end
/// with `instead`: what else can be done, for `routing` where nothing is said.
ModelRouters model_routers(const input::ModelFiles& files,
                           std::string_view instead = kGiveRouterRule);

/// The biases in stored tensor `tensor`, as float32. Errors: FormatError (65) E-ROUTER-BIAS for a
/// shape or type that holds no bias per expert; those of the source.
std::vector<float> read_router_bias(const input::ModelFiles& files, std::int32_t tensor);

}  // namespace vindex::model
