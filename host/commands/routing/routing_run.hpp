// Owns a run of `vindex routing` from settings to results file: opens the dump, finds the rule of
// the routers, and hands the job to the runner. It computes on the host.
#pragma once

#include "architecture/router_rule.hpp"
#include "engine/run/job_runner.hpp"
#include "engine/run_settings.hpp"

#include <optional>
#include <string>

namespace vindex::commands {

/// What the command line asks for. Of `run` counts what ActivationsSettings names, less what
/// chooses a back end.
struct RoutingSettings {
  std::string dump;
  std::string model;  ///< whose rule it is; empty where `rule` is given or the dump carries one
  std::string model_config;        ///< --model-config of it
  std::optional<RouterRule> rule;  ///< as given by the user
  engine::RunSettings run;
};

/// Errors: those of model::open_dump(), open_model(), model::model_routers() and run_job();
/// FormatError E-DUMP-ROLE (65) for a dump without router_logits; UsageError E-ROUTER-RULE (64)
/// where nothing says the rule.
engine::RunOutcome measure_routing(const RoutingSettings& settings, const engine::RunHooks& hooks);

}  // namespace vindex::commands
