// The command cka: the similarity of the layers of two dumps of activations.
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/cka/cka_run.hpp"
#include <vindex/error.hpp>

#include <memory>

namespace vindex::apps {

namespace {

struct CkaFlags : JobCommandFlags<commands::CkaSettings> {
  bool no_interval = false;
};

Ending run_cka(const CkaFlags& flags, const Session& session) {
  commands::CkaSettings settings = settle(flags, session);
  settings.interval = !flags.no_interval;
  return run_cells(settings.run, flags.job, session, results::FileSchema::kCka,
                   [&](const engine::RunHooks& hooks) {
                     return commands::compare_activations(settings, hooks);
                   });
}

}  // namespace

void add_cka(Command& app, Session& session) {
  auto flags = std::make_shared<CkaFlags>();
  commands::CkaSettings& settings = flags->settings;
  Command& command = app.add_command(
      "cka",
      "Compare dumps of activations layer by layer: CKA, null\n\n"
      "Examples:\n  vindex cka DUMP_A DUMP_B -o cka.h5\n"
      "  vindex cka QWEN LLAMA -o cka.h5 --pool mean   other tokenizers: a row a prompt\n"
      "  vindex cka A B -o cka.h5 --permutations 0 --no-interval   the estimate alone\n"
      "The estimate of CKA is the unbiased linear one; the null permutes prompts. "
      "The same command again resumes. `vindex show cka.h5` prints the table again.");
  command.add_input("a", settings.dump_a, "Dump A: folder or file of .npy or .safetensors")
      ->required();
  command.add_input("b", settings.dump_b, "Dump B")->required();
  add_results_file(command, settings.run.output);
  add_roles(command, settings.role, "Which arrays: hidden, mlp or router_logits")
      ->check(CLI::IsMember({"hidden", "mlp", "router_logits"}))
      ->capture_default_str();
  command
      .add_value("--pool", settings.pool,
                 "One row for each prompt: mean or last of its tokens; without it token ids "
                 "must be equal")
      ->check(CLI::IsMember({"mean", "last"}));
  command
      .add_value(
          "--permutations", settings.permutations,
          "Draws of the null: prompts of B change places with\nothers of their length (0: none)")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_flag("--no-interval", flags->no_interval,
                   "Leave out se, ci_low, ci_high and the stages: for\n"
                   "many rows they take longer than the estimate");
  // Scripts of earlier versions ask for it: what took its place is said rather than guessed.
  command.add_former_option("--bootstrap", "E-CKA-BOOTSTRAP",
                            "--bootstrap is gone: intervals are a jackknife over prompts, which "
                            "draws nothing; leave it out "
                            "(--bootstrap 0: write --no-interval)");
  add_layers(command, settings.layers_a, "Layers of A, for example 0,1,15-20");
  command.add_value("--layers-b,--layer-b", settings.layers_b, "Layers of B");
  add_backend_flags(command, flags->backend);
  add_job_flags(command, flags->job, "Workers on the host (0: every core)");
  command.runs(session, [&session, flags] { return run_cka(*flags, session); });
}

}  // namespace vindex::apps
