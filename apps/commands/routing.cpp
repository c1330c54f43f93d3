// The command routing: where routers send tokens.
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/routing/routing_run.hpp"

#include <memory>

namespace vindex::apps {

namespace {

struct RoutingFlags {
  commands::RoutingSettings settings;
  JobFlags job;
  std::string scoring;
  std::int64_t top_k = 0;
  bool normalise = false;
};

commands::RoutingSettings routing_settings(const RoutingFlags& flags, const Session& session) {
  commands::RoutingSettings settings = flags.settings;
  const bool is_given = flags.top_k > 0 || !flags.scoring.empty();
  if ((is_given && !settings.model.empty()) ||
      (is_given && (flags.top_k < 1 || flags.scoring.empty())) || (flags.normalise && !is_given)) {
    throw UsageError("E-ROUTER-RULE",
                     "the rule of the routers is given by halves or twice: the dump's own, which "
                     "`vindex trace` writes, or --model MODEL, whose rule it is, or --top-k K and "
                     "--scoring softmax|sigmoid (and --normalise where weights are divided by "
                     "their sum)");
  }
  if (is_given) {
    settings.rule =
        RouterRule{.scoring = flags.scoring == "sigmoid"   ? RouterScoring::kSigmoid
                              : flags.scoring == "softmax" ? RouterScoring::kSoftmax
                                                           : RouterScoring::kSqrtSoftplus,
                   .top_k = flags.top_k,
                   .normalised = flags.normalise};
  }
  settle_job(settings.run, flags.job, session);
  return settings;
}

Ending run_routing(const RoutingFlags& flags, const Session& session) {
  const commands::RoutingSettings settings = routing_settings(flags, session);
  return run_cells(
      settings.run, flags.job, session, results::FileSchema::kRouting,
      [&](const engine::RunHooks& hooks) { return commands::measure_routing(settings, hooks); });
}

}  // namespace

void add_routing(Command& app, Session& session) {
  auto flags = std::make_shared<RoutingFlags>();
  commands::RoutingSettings& settings = flags->settings;
  Command& command = app.add_command(
      "routing",
      "Expert loads, co-activation and margins of routers\n\n"
      "Examples:\n  vindex routing DUMP -o routing.h5                 of `vindex trace`: its rule\n"
      "  vindex routing DUMP -o routing.h5 --model MODEL   its own rule, biases\n"
      "  vindex routing DUMP -o routing.h5 --top-k 8 --scoring softmax --normalise\n"
      "DUMP: a folder or file of .npy or .safetensors arrays router_logits.L [tokens, experts], as "
      "routers write them: before softmax or sigmoid, without biases that choose. The same "
      "command again resumes.");
  command.add_input("dump", settings.dump, "Folder or file of dumped router logits")->required();
  add_results_file(command, settings.run.output);
  command.add_input("--model", settings.model,
                    "Model whose routers' rule and biases hold (default: what the dump carries)");
  add_model_config(command, settings.model_config, "config.json of a single .safetensors model");
  command.add_value("--top-k", flags->top_k, "Instead of a model: experts of a token")
      ->check(CLI::PositiveNumber);
  command.add_value("--scoring", flags->scoring, "With --top-k: from logits to scores")
      ->check(CLI::IsMember({"softmax", "sigmoid", "sqrtsoftplus"}));
  command.add_flag("--normalise", flags->normalise,
                   "With --top-k: weights are divided by their sum");
  add_job_flags(command, flags->job, "Workers (0: every core)");
  command.runs(session, [&session, flags] { return run_routing(*flags, session); });
}

}  // namespace vindex::apps
