// The verb activations: what dumped activations and logits are like.
#include "cells_ending.hpp"

#include <vindex/run/activations_run.hpp>

#include <memory>

namespace vindex::apps {

namespace {

struct Flags {
  run::ActivationsSettings settings;
  std::string backend = "auto", device = "0", ram_budget, worker, progress = "auto", config;
  bool no_effective_rank = false, json = false;
};

run::ActivationsSettings settings_of(const Flags& flags, const Session& session) {
  run::ActivationsSettings settings = flags.settings;
  settings.covariance = !flags.no_effective_rank;
  run::RunSettings& run = settings.run;
  run.backend = backend_of(flags.backend);
  run.devices = parse_devices(flags.device);
  const run::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  run.ram_budget = budget.bytes;
  run.ram_budget_source = budget.source_text();
  run.worker = parse_worker(flags.worker);
  run.blas_core = blas_core_wish();
  run.command = session.arguments;
  run.unset_variables = session.unset_variables;
  return settings;
}

Ending run_activations(const Flags& flags, const Session& session) {
  const run::ActivationsSettings settings = settings_of(flags, session);
  RunTalk talk(session, flags.progress);
  const run::RunOutcome outcome = run::measure_activations(settings, talk.hooks());
  talk.finish();
  return end_of_cells({.output = settings.run.output,
                       .schema = results::FileSchema::kActivations,
                       .worker = settings.run.worker,
                       .json = flags.json},
                      outcome, session);
}

}  // namespace

void add_activations(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  run::ActivationsSettings& settings = flags->settings;
  run::RunSettings& run = settings.run;
  CLI::App* verb = app.add_subcommand(
      "activations",
      "Sparsity, tails, variance and rank of dumped activations; what logits say\n\n"
      "Examples:\n  vindex activations DUMP -o activations.h5\n"
      "  vindex activations DUMP -o activations.h5 --model MODEL   also its gate projections\n"
      "  vindex activations DUMP -o hidden.h5 --hidden             of the residual stream\n"
      "DUMP: a folder or file of .npy or .safetensors arrays mlp.L [tokens, neurons], hidden.L, "
      "logits\n[tokens, vocabulary]. The same command again resumes.");
  verb->add_option("dump", settings.dump, "Folder or file of dumped activations")->required();
  verb->add_option("-o,--output", run.output, "Results file (HDF5)")->required();
  verb->add_option("--model", settings.model,
                   "Model: cosines between the rows of its gate projections");
  verb->add_option("--model-config", settings.model_config,
                   "config.json of a single .safetensors model");
  verb->add_flag("--hidden", settings.hidden, "hidden.L instead of mlp.L");
  verb->add_flag("--no-effective-rank", flags->no_effective_rank,
                 "Leave out the spectrum of the token covariance, which takes most of the time");
  verb->add_option("--backend", flags->backend, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  verb->add_option("--device", flags->device, "CUDA devices: all, 0, 0,2")->capture_default_str();
  verb->add_option("--threads", run.threads, "Workers on the host (0: every core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_ram_budget(*verb, flags->ram_budget);
  add_worker(*verb, flags->worker);
  add_progress(*verb, flags->progress);
  verb->add_flag("--restart", run.restart, "Discard what an earlier run left");
  verb->add_flag("--json", flags->json, "The table as one JSON document, numbers unrounded");
  verb->add_option("--config", flags->config,
                   "File of the same flags, one `name = value` a line; the command line outranks "
                   "it");
  on_choice(*verb, session, [&session, flags] { return run_activations(*flags, session); });
}

}  // namespace vindex::apps
