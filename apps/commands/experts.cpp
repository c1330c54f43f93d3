// The command experts: the similarity of the routed experts of every layer.
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/experts/experts_run.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

struct ExpertsFlags : JobCommandFlags<commands::ExpertsSettings> {
  std::string layers, roles, tensors;
};

Ending run_experts(const ExpertsFlags& flags, const Session& session) {
  commands::ExpertsSettings settings = settle(flags, session);
  settings.run.selection = model::parse_selection(flags.layers, "", flags.roles, flags.tensors);
  std::string remark;
  const auto job = [&](const engine::RunHooks& hooks) {
    const commands::ExpertsOutcome outcome = commands::measure_experts(settings, hooks);
    if (outcome.run.measured_now > 0 && settings.vectors == 0 && !outcome.run.stopped) {
      remark = fmt::format("time: {}", commands::floor_text(outcome.floor));
    }
    return outcome.run;
  };
  return run_cells(settings.run, flags.job, session, results::FileSchema::kExperts, job, &remark);
}

}  // namespace

void add_experts(Command& app, Session& session) {
  auto flags = std::make_shared<ExpertsFlags>();
  engine::RunSettings& run = flags->settings.run;
  Command& command = app.add_command(
      "experts",
      "Compare the routed experts of every layer\n\n"
      "Examples:\n  vindex experts MODEL -o experts.h5\n"
      "  vindex experts MODEL -o experts.h5 --roles down_proj --layers 1-60\n"
      "  vindex experts MODEL -o experts.h5 --k 16   also overlaps of subspaces\n"
      "Reports cosines, with and without the experts' mean, and the spectrum along the axis of "
      "experts, beside its null. The same command again resumes. `vindex show experts.h5` prints "
      "the table.");
  command.add_input("model", run.model, "Model folder or file")->required();
  add_results_file(command, run.output);
  add_layers(command, flags->layers);
  add_roles(command, flags->roles);
  command.add_value("--tensors", flags->tensors, "Regular expression for the whole logical name");
  command
      .add_value("--k", flags->settings.vectors,
                 "Also the overlap of the top K singular subspaces of every two experts; reads "
                 "the\nexperts a second time")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  add_model_config(command, run.model_config);
  add_backend_flags(command, flags->backend);
  add_job_flags(command, flags->job, "Workers on the host (0: every core)");
  command.runs(session, [&session, flags] { return run_experts(*flags, session); });
}

}  // namespace vindex::apps
