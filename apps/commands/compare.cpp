// The command compare: two models, matrix by matrix.
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/compare/compare_run.hpp"
#include "commands/compare/comparison_tables.hpp"
#include "engine/run/job_runner.hpp"

#include <memory>

namespace vindex::apps {

namespace {

struct CompareFlags : JobCommandFlags<commands::CompareSettings> {
  std::string layers, blocks, roles, tensors, mode = "default";
};

Ending run_compare(CompareFlags flags, const Session& session) {
  flags.settings.run.selection =
      model::parse_selection(flags.layers, flags.blocks, flags.roles, flags.tensors);
  flags.settings.map = model::parse_layer_map(flags.settings.map_text);
  flags.settings.run.options.mode = mode_of(flags.mode);
  const commands::CompareSettings settings = settle(flags, session);
  const std::string& output = settings.run.output;
  return run_job(
      settings.run, flags.job, session,
      {.noun = "pairs",
       .not_finite = "weights that are not finite; their rows say so and have no numbers",
       .json = [&] { return commands::comparison_json(commands::read_comparison(output)); },
       .text =
           [&](std::size_t width, std::string& backend) {
             const commands::ComparisonSummary compared = commands::read_comparison(output);
             backend = compared.backend;
             return commands::comparison_text(compared, width);
           }},
      [&](const engine::RunHooks& hooks) { return commands::compare_models(settings, hooks); });
}

}  // namespace

void add_compare(Command& app, Session& session) {
  auto flags = std::make_shared<CompareFlags>();
  commands::CompareSettings& settings = flags->settings;
  Command& command = app.add_command(
      "compare",
      "Compare two models, matrix by matrix\n\n"
      "Examples:\n  vindex compare ORIGINAL QUANTISED -o pairs.h5\n"
      "  vindex compare BASE TUNED -o pairs.h5 --delta     the spectrum of TUNED - BASE\n"
      "  vindex compare BASE TUNED -o pairs.h5 --k 16      angles of 16 directions\n"
      "  vindex compare BASE TUNED -o pairs.h5 --blocks attention --layers 0-15\n"
      "  vindex compare SMALL DEEPER -o pairs.h5 --map 0-10:4-14\n"
      "  vindex compare A B -o pairs.h5 --spectra-a a.h5 --spectra-b b.h5  both spectra\n"
      "Reports cosine, relative error, equal bits and, with --delta, the effective rank of the "
      "delta. "
      "The same command again resumes. `vindex show pairs.h5` prints the table again.");
  command.add_input("a", settings.model_a, "Model A: folder or file")->required();
  command.add_input("b", settings.model_b, "Model B: folder or file")->required();
  add_results_file(command, settings.run.output);
  command.add_value("--map", settings.map_text,
                    "Layers of A beside layers of B: 0-10:4-14, several with commas");
  add_layers(command, flags->layers, "Layers of A, for example 0,1,15-20");
  add_blocks(command, flags->blocks);
  add_roles(command, flags->roles);
  command.add_value("--tensors", flags->tensors,
                    "Regular expression for the whole logical name in A");
  command.add_results(
      "--spectra-a", settings.spectra_a,
      "Results file of `vindex measure A`: statistics of both spectra side by side");
  command.add_results("--spectra-b", settings.spectra_b, "The same of B");
  command.add_input("--model-config-a", settings.model_config_a,
                    "config.json of a single .safetensors A");
  command.add_input("--model-config-b", settings.model_config_b, "The same of B");
  command.add_flag("--delta", settings.delta,
                   "Also the spectrum of B - A: the effective rank of the delta, beside noise");
  command
      .add_value("--k", settings.subspace,
                 "Also the similarity of the top K singular directions: overlap, angles")
      ->check(CLI::Range(1, static_cast<int>(statistics::kMaxSubspace)));
  command
      .add_value("--mode", flags->mode, "Of the spectra of --delta and --k: fast, default, strict")
      ->check(CLI::IsMember({"fast", "default", "strict"}))
      ->capture_default_str();
  add_backend_flags(command, flags->backend,
                    "Where they are computed: auto, cpu or cuda; the comparison runs on the host");
  command.add_value("--svd-route", settings.run.options.svd_route, "As in `vindex measure`")
      ->capture_default_str();
  add_job_flags(command, flags->job, "Workers (0: every core)");
  command.runs(session, [&session, flags] { return run_compare(*flags, session); });
}

}  // namespace vindex::apps
