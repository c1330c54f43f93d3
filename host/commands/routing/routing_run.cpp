// Owns the steps of a routing run: dump, rule and bias, layers, the description.
#include "routing_run.hpp"

#include "routing_job.hpp"

#include "commands/token_tables/routing_cells.hpp"
#include "core/digest.hpp"
#include "core/process/parallel.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/opening.hpp"
#include "input/open/open_model.hpp"
#include "model/routers/carried_rule.hpp"
#include "model/routers/read_router_rule.hpp"
#include "statistics/routing/token_router.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

namespace vindex::commands {

namespace {

/// The model whose rule it is, of which nothing is read but biases, or the rule that the dump
/// carries.
struct RuleSource {
  std::optional<input::ModelFiles> files;
  std::optional<model::CarriedRule> carried;
  model::ModelRouters routers;

  bool has_bias(std::int32_t layer) const {
    return carried ? carried->biases.contains(layer) : routers.bias_tensors.contains(layer);
  }
  std::vector<float> bias(std::int32_t layer) const {
    return carried ? carried->biases.at(layer)
                   : model::read_router_bias(*files, routers.bias_tensors.at(layer));
  }
};

RuleSource open_rule(const RoutingSettings& settings, const model::Dump& dump,
                     const std::stop_token& stop) {
  RuleSource source;
  if (settings.rule) {
    source.routers.rule = *settings.rule;
    source.routers.rule.biased = false;
    source.routers.family = "given";
    return source;
  }
  if (settings.model.empty()) {
    source.carried = model::carried_rule(dump);
    if (!source.carried) {
      throw UsageError("E-ROUTER-RULE",
                       fmt::format("{} carries no rule of routers, as dumps of `vindex trace` do: "
                                   "either --model MODEL, whose rule it is, or --top-k K and "
                                   "--scoring softmax|sigmoid (and --normalise where weights are "
                                   "divided by their sum)",
                                   printable(settings.dump)));
    }
    source.routers.rule = source.carried->rule;
    source.routers.family = source.carried->family;
    source.routers.expects_bias = source.carried->expects_bias;
    return source;
  }
  source.files = input::open_model(
      settings.model,
      {.model_config = settings.model_config, .threads = settings.run.threads, .stop = stop});
  source.routers = model::model_routers(*source.files);
  return source;
}

/// "warning ...: layers 1, 2, 3 and 9 more", or nothing.
std::string bias_warning(const std::vector<std::int32_t>& layers, const std::string& family) {
  constexpr std::size_t kShown = 8;
  if (layers.empty()) {
    return {};
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, layers.size()); ++i) {
    list += fmt::format("{}{}", i == 0 ? "" : ", ", layers[i]);
  }
  if (layers.size() > kShown) {
    list += fmt::format(" and {} more", layers.size() - kShown);
  }
  return fmt::format(
      "warning W-ROUTER-BIAS: routers of {} choose by score + bias (e_score_correction_bias, "
      "exp_probs_b), and the model stores none for {} {}: taken as zero, experts are chosen by "
      "scores alone",
      family, layers.size() == 1 ? "layer" : "layers", list);
}

std::vector<RoutedLayer> routed_layers(const model::Dump& dump, const RuleSource& source,
                                       std::vector<std::string>& messages) {
  std::vector<RoutedLayer> layers;
  std::vector<std::int32_t> without_bias;
  for (const std::int64_t matrix : model::matrices_of_role(dump, model::kRouterLogitsRole)) {
    const model::MatrixRecord& record = dump.index.matrices[static_cast<std::size_t>(matrix)];
    if (source.routers.hashed_layers.contains(record.layer)) {
      messages.push_back(
          fmt::format("warning W-ROUTER-HASHED: layer {} is left out: its experts "
                      "come from the token, not from logits",
                      record.layer));
      continue;
    }
    RoutedLayer layer;
    layer.matrix = matrix;
    layer.router.rule = source.routers.rule;
    layer.router.rule.biased = layer.router.rule.biased && source.has_bias(record.layer);
    if (layer.router.rule.biased) {
      layer.router.bias = source.bias(record.layer);
    } else if (source.routers.expects_bias) {
      without_bias.push_back(record.layer);
    }
    statistics::TokenRouter checked(layer.router.rule, record.cols,
                                    layer.router.bias);  // its errors, early
    layers.push_back(std::move(layer));
  }
  if (std::string warning = bias_warning(without_bias, source.routers.family); !warning.empty()) {
    messages.push_back(std::move(warning));
  }
  return layers;
}

Json rule_json(const RouterRule& rule, const std::string& family) {
  return {{"family", family},
          {"scoring", scoring_name(rule.scoring)},
          {"top_k", rule.top_k},
          {"normalised", rule.normalised},
          {"scale", rule.scale},
          {"groups", rule.groups},
          {"chosen_groups", rule.chosen_groups},
          {"group_score", rule.group_score == GroupScore::kLargest ? "largest" : "two largest"},
          {"biased", rule.biased}};
}

constexpr const char* kNullsText =
    "uniform routing of as many tokens. load, dead_experts, mean_weight, coactivation_lift, "
    "transition_lift: closed form (with groups, chances of pairs from 16384 drawn tokens of "
    "logit_mean and logit_sd); load_cv, load_entropy, gini, max_over_mean, dead_experts_null_sd: "
    "1000 draws; *_lift_max: 1000 draws, of many tokens the law of independent pairs or draws of "
    "fewer, scaled; router_entropy, margin: the 16384 tokens";

void describe_routing(const RoutingSettings& settings, const model::Dump& dump,
                      const RuleSource& source, const std::vector<RoutedLayer>& layers,
                      std::int64_t experts, std::int32_t threads, engine::JobFrame& frame) {
  results::RunDescription& run =
      frame.describe(results::FileSchema::kRouting, settings.dump,
                     fmt::format("routing of {}", printable(settings.dump)), {}, threads);
  const Json rule = rule_json(source.routers.rule, source.routers.family);
  run.fingerprint.emplace_back("rule", rule.dump());
  frame.add_inputs(dump.files, "dump");
  if (source.files) {
    frame.add_inputs(*source.files, "model", "model ");
  }
  if (source.carried) {
    Sha256 digest;
    digest.update(std::as_bytes(std::span(source.carried->text)));
    run.fingerprint.emplace_back("carried rule", "sha256 " + hex(digest.finish()));
  }
  frame.complete({{"model", settings.model}, {"rule", rule}},
                 {{"tokens", dump.tokens}, {"experts", experts}});
  // What files have since version 1.1.
  run.optional_columns = results::optional_names(engine::kRoutingCells, engine::kRoutingArrays);
  run.attributes = {
      {"tokens", dump.tokens}, {"rule", rule.dump()}, {"nulls", std::string(kNullsText)}};
  if (!settings.model.empty()) {
    run.attributes.push_back({"rule_of", settings.model});
  }
  run.scales = {{"expert", results::ScaleValues::counted(experts)},
                {"expert_other", results::ScaleValues::counted(experts)}};
  for (const RoutedLayer& layer : layers) {
    run.matrices.push_back(dump.index.matrices[static_cast<std::size_t>(layer.matrix)]);
  }
}

std::string rule_text(const RuleSource& source) {
  const RouterRule& rule = source.routers.rule;
  std::string text = fmt::format("routing rule ({}): {}, {} experts a token", source.routers.family,
                                 scoring_name(rule.scoring), rule.top_k);
  text += rule.biased ? ", biases" : "";
  text +=
      rule.is_grouped() ? fmt::format(", {} of {} groups", rule.chosen_groups, rule.groups) : "";
  text += rule.normalised ? ", weights normalised" : "";
  text += rule.scale != 1.0 ? fmt::format(", times {}", rule.scale) : "";
  return text;
}

}  // namespace

engine::RunOutcome measure_routing(const RoutingSettings& settings, const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  model::Dump dump = model::open_dump(settings.dump, hooks.stop);
  const RuleSource source = open_rule(settings, dump, hooks.stop);
  for (const Warning& warning : source.routers.warnings) {
    frame.say(fmt::format("warning {}: {}", warning.id, warning.text));
  }
  std::vector<std::string> warnings;
  std::vector<RoutedLayer> layers = routed_layers(dump, source, warnings);
  frame.say(warnings);
  if (layers.empty()) {
    throw FormatError("E-DUMP-ROLE", printable(settings.dump),
                      "no router_logits.L in it; capture them (docs/commands/capture.md)");
  }
  std::int64_t experts = 0;
  for (const RoutedLayer& layer : layers) {
    experts = std::max(experts, dump.index.matrices[static_cast<std::size_t>(layer.matrix)].cols);
  }
  const std::int32_t threads =
      std::min<std::int32_t>(settings.run.threads > 0 ? settings.run.threads : usable_cores(),
                             static_cast<std::int32_t>(layers.size()));
  frame.open_reader({&dump.files});
  describe_routing(settings, dump, source, layers, experts, threads, frame);
  frame.say_warnings(dump.files, dump.index);
  frame.say(rule_text(source));
  frame.say(fmt::format("back end: cpu ({} workers; routing needs no device)", threads));
  return engine::run_job(
      std::make_unique<RoutingJob>(std::move(dump), std::move(layers), experts, threads),
      frame.take_run(), hooks);
}

}  // namespace vindex::commands
