// The command activations: what dumped activations and logits are like.
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/activations/activations_run.hpp"

#include <memory>

namespace vindex::apps {

namespace {

struct ActivationsFlags : JobCommandFlags<commands::ActivationsSettings> {
  bool no_effective_rank = false;
};

Ending run_activations(const ActivationsFlags& flags, const Session& session) {
  commands::ActivationsSettings settings = settle(flags, session);
  settings.covariance = !flags.no_effective_rank;
  return run_cells(settings.run, flags.job, session, results::FileSchema::kActivations,
                   [&](const engine::RunHooks& hooks) {
                     return commands::measure_activations(settings, hooks);
                   });
}

}  // namespace

void add_activations(Command& app, Session& session) {
  auto flags = std::make_shared<ActivationsFlags>();
  commands::ActivationsSettings& settings = flags->settings;
  Command& command = app.add_command(
      "activations",
      "Sparsity, kurtosis, variance and rank of activations\n\n"
      "Examples:\n  vindex activations DUMP -o activations.h5\n"
      "  vindex activations DUMP -o activations.h5 --model MODEL   also gate rows\n"
      "  vindex activations DUMP -o hidden.h5 --hidden       residual stream\n"
      "DUMP: a folder or file of .npy or .safetensors arrays mlp.L [tokens, neurons], hidden.L, "
      "logits [tokens, vocabulary]. The same command again resumes.");
  command.add_input("dump", settings.dump, "Folder or file of dumped activations")->required();
  add_results_file(command, settings.run.output);
  command.add_input("--model", settings.model,
                    "Model: cosines between the rows of its gate projections");
  add_model_config(command, settings.model_config, "config.json of a single .safetensors model");
  command.add_flag("--hidden", settings.hidden, "hidden.L instead of mlp.L");
  command.add_flag("--no-effective-rank", flags->no_effective_rank,
                   "Leave out the spectrum of the token covariance, which takes most of the time");
  add_backend_flags(command, flags->backend);
  add_job_flags(command, flags->job, "Workers on the host (0: every core)");
  command.runs(session, [&session, flags] { return run_activations(*flags, session); });
}

}  // namespace vindex::apps
