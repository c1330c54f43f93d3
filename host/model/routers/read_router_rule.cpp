// Owns reading a rule by its family, and finding and reading biases.
#include "read_router_rule.hpp"

#include "router_families.hpp"

#include "model/config/model_config.hpp"
#include "model/keys/transformer_key_table.hpp"
#include "model/schemes/stored_vector.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

namespace vindex::model {

namespace {

/// What of a model's keys a router's rule is made of.
class RouterKeys {
 public:
  RouterKeys(const input::ModelFiles& files, std::string_view instead)
      : claims_(files, warnings_),
        keys_(claims_, "E-ROUTER-KEY", "the model's router", std::string(instead)),
        dialect_(files.format == input::ContainerFormat::kGguf ? Dialect::kGguf
                                                               : Dialect::kHuggingFace) {}

  RouterRule rule(const RouterFamily& family) {
    RouterRule rule;
    rule.scoring = scoring(family);
    rule.top_k = count({{"num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk",
                         "moe_k", "top_k_experts", "experts_per_token"},
                        {"expert_used_count"}},
                       std::nullopt);
    rule.sum_offset = family.sum_offset;
    rule.biased = family.biased;
    rule.normalised = normalised(family);
    rule.scale = scale(family);
    if (family.grouped) {
      groups(family, rule);
    }
    return rule;
  }
  const Claims& claims() const { return claims_; }
  Dialect dialect() const { return dialect_; }

 private:
  std::int64_t count(const KeyNames& names, std::optional<std::int64_t> otherwise) const {
    constexpr std::uint64_t kMax = 1U << 20U;
    const auto found = keys_.count(names);
    if (!found) {
      if (!otherwise) {
        keys_.refuse(
            fmt::format("no {} says how many experts a token has",
                        dialect_ == Dialect::kGguf ? *names.gguf.begin() : *names.config.begin()));
      }
      return *otherwise;
    }
    if (found->value < 1 || found->value > kMax) {
      keys_.refuse(fmt::format("{} is {}", printable(found->key), found->value));
    }
    return static_cast<std::int64_t>(found->value);
  }

  RouterScoring scoring(const RouterFamily& family) const {
    if (const auto function = keys_.count({{}, {"expert_gating_func"}})) {
      switch (function->value) {
        case 1:
        case 3:  // softmax of the chosen: the family's weights are then normalised
          return RouterScoring::kSoftmax;
        case 2:
          return RouterScoring::kSigmoid;
        case 4:
          return RouterScoring::kSqrtSoftplus;
        default:
          keys_.refuse(fmt::format("expert_gating_func {} is not known", function->value));
      }
    }
    const auto name = family.fixed
                          ? std::nullopt
                          : keys_.text({{"scoring_func", "moe_router_activation_func"}, {}});
    if (!name) {
      return family.scoring;
    }
    for (const RouterScoring scoring :
         {RouterScoring::kSoftmax, RouterScoring::kSigmoid, RouterScoring::kSqrtSoftplus}) {
      if (name->value == scoring_name(scoring)) {
        return scoring;
      }
    }
    keys_.refuse(fmt::format("{} \"{}\" is not known", name->key, excerpt(name->value)));
  }

  bool normalised(const RouterFamily& family) const {
    if (const auto function = keys_.count({{}, {"expert_gating_func"}});
        function && function->value == 3) {
      return true;
    }
    if (family.normalised == Normalised::kNever || family.normalised == Normalised::kAlways) {
      return family.normalised == Normalised::kAlways;
    }
    if (family.architecture == "dbrx") {
      const auto power = keys_.number({{"moe_normalize_expert_weights"}, {}});
      if (power && power->value != 1.0) {
        keys_.refuse(
            fmt::format("moe_normalize_expert_weights {} is no division by the sum", power->value));
      }
      return true;
    }
    return keys_.boolean({{"norm_topk_prob", "moe_renormalize"}, {"expert_weights_norm"}})
        .value_or(family.normalised == Normalised::kKeyElseYes);
  }

  double scale(const RouterFamily& family) const {
    if (family.fixed) {
      return family.scale;
    }
    const auto found =
        keys_.number({{"routed_scaling_factor", "route_scale"}, {"expert_weights_scale"}});
    if (!found) {
      return family.scale;
    }
    if (dialect_ == Dialect::kGguf && found->value == 0.0) {
      return 1.0;  // so writers say that there is none
    }
    if (!(found->value > 0.0)) {
      keys_.refuse(fmt::format("{} is {}, where a positive number is needed", printable(found->key),
                               found->value));
    }
    return found->value;
  }

  void groups(const RouterFamily& family, RouterRule& rule) {
    std::string method = family.biased ? "noaux_tc" : "greedy";
    if (family.method_key) {
      if (const auto said = keys_.text({{"topk_method"}, {}})) {
        method = said->value;
      }
      if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
        keys_.refuse(fmt::format("topk_method \"{}\" is not known", excerpt(method)));
      }
      rule.biased = method == "noaux_tc";
      if (method != "noaux_tc" && rule.normalised) {
        rule.scale = 1.0;  // DeepSeek-V2 scales only what it does not normalise
      }
      if (method == "greedy") {
        return;
      }
    }
    const bool is_v3 = family.scoring == RouterScoring::kSigmoid && family.method_key;
    rule.groups = count({{"n_group", "num_expert_group"}, {"expert_group_count"}}, is_v3 ? 8 : 1);
    rule.chosen_groups = count({{"topk_group"}, {"expert_group_used_count"}}, is_v3 ? 4 : 1);
    rule.group_score = method == "group_limited_greedy" ||
                               (dialect_ == Dialect::kGguf && family.architecture == "deepseek2" &&
                                rule.scoring == RouterScoring::kSoftmax)
                           ? GroupScore::kLargest
                           : GroupScore::kTwoLargest;
  }

  std::vector<Warning> warnings_;  // the index says them
  Claims claims_;
  StrictKeys keys_;
  Dialect dialect_;
};

/// The family of the language model inside a wrapper before the wrapper's.
std::optional<RouterFamily> family_of(const RouterKeys& keys) {
  if (const auto inner = router_family(keys.dialect(), keys.claims().inner_architecture())) {
    return inner;
  }
  return router_family(keys.dialect(), keys.claims().architecture());
}

bool is_bias_name(std::string_view name) {
  return name.ends_with("e_score_correction_bias") || name.ends_with("exp_probs_b.bias") ||
         name.ends_with("exp_probs_b") || name.ends_with(".expert_bias");
}

}  // namespace

ModelRouters model_routers(const input::ModelFiles& files, std::string_view instead) {
  RouterKeys keys(files, instead);
  const auto family = family_of(keys);
  if (!family) {
    const std::string& name = keys.claims().architecture();
    throw ConfigurationError(
        "E-ROUTER-UNKNOWN",
        fmt::format("{}: the rule of routers of family {} is not known{}", printable(files.path),
                    name.empty() ? "unknown" : printable(name), instead));
  }
  ModelRouters routers;
  routers.family = family->architecture;
  routers.rule = keys.rule(*family);
  routers.warnings = own_key_warnings(files, family->architecture);
  TensorName name;
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    const std::string& stored = files.tensors[i].name;
    const bool is_table = stored.find("tid2eid") != std::string::npos;
    if (!is_table && !is_bias_name(stored)) {
      continue;
    }
    read_tensor_name(stored, keys.dialect(), name);
    if (name.layer < 0) {
      continue;
    }
    if (is_table) {
      routers.hashed_layers.insert(name.layer);
    } else if (routers.rule.biased) {
      routers.bias_tensors.emplace(name.layer, static_cast<std::int32_t>(i));
    }
  }
  // llama.cpp calls DeepSeek-V2 by the name of V3; it has no biases.
  const bool may_lack =
      family->architecture == "deepseek2" && routers.rule.scoring == RouterScoring::kSoftmax;
  routers.expects_bias = routers.rule.biased && !may_lack;
  if (routers.bias_tensors.empty()) {
    routers.rule.biased = false;
  }
  return routers;
}

std::vector<float> read_router_bias(const input::ModelFiles& files, std::int32_t tensor) {
  const input::StoredTensor& stored = files.tensors[static_cast<std::size_t>(tensor)];
  const input::Shard& shard = files.shards[static_cast<std::size_t>(stored.shard)];
  constexpr std::uint64_t kMaxBytes = 1U << 20U;
  const std::int64_t widest =
      stored.shape.empty() ? 0 : *std::max_element(stored.shape.begin(), stored.shape.end());
  const bool is_vector = std::all_of(stored.shape.begin(), stored.shape.end(),
                                     [&](auto side) { return side == 1 || side == widest; });
  const auto elements = std::accumulate(
      stored.shape.begin(), stored.shape.end(), 1.0,
      [](double product, auto side) { return product * static_cast<double>(side); });
  if (!is_vector || !is_full_float(stored.type) || widest < 1 ||
      elements != static_cast<double>(widest) || stored.bytes > kMaxBytes) {
    throw FormatError("E-ROUTER-BIAS", shard.path,
                      fmt::format("{} holds no bias per expert", printable(stored.name)));
  }
  std::vector<float> bias = read_vector(files, {.tensor = tensor, .count = widest});
  if (!std::all_of(bias.begin(), bias.end(), [](float value) { return std::isfinite(value); })) {
    throw FormatError("E-ROUTER-BIAS", shard.path,
                      fmt::format("{} holds biases that are not finite", printable(stored.name)));
  }
  return bias;
}

}  // namespace vindex::model
