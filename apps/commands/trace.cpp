// The command trace: prompts through a model, layer by layer, and the activations kept of it.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/trace/output/joined_dump.hpp"
#include "commands/trace/trace_run.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <memory>
#include <unistd.h>

namespace vindex::apps {

namespace {

struct TraceFlags {
  commands::TraceSettings settings;
  BackendFlags backend;
  std::string keep, layers, type = "f32", format = "npy", ram_budget, progress = "auto";
  bool json = false;
};

/// Flags of what is not asked for are a slip that would be noticed behind a long run.
void refuse_idle_flags(const TraceFlags& flags) {
  const commands::TraceSettings& settings = flags.settings;
  const auto refuse = [](bool is_idle, const char* flag, const char* of) {
    if (is_idle) {
      throw UsageError("E-USAGE", fmt::format("{} means nothing without {}", flag, of));
    }
  };
  const bool no_dump = settings.run.output.empty();
  refuse(no_dump && !flags.keep.empty(), "--keep", "-o");
  refuse(no_dump && !flags.layers.empty(), "--layers", "-o");
  refuse(no_dump && flags.type != "f32", "--dtype", "-o");
  refuse(no_dump && flags.format != "npy", "--format", "-o");
  refuse(no_dump && settings.replace, "--force", "-o");
  refuse(settings.covariance && settings.statistics.empty(), "--effective-rank", "--statistics");
  refuse(!settings.against_config.empty() && settings.against.empty(), "--against-config",
         "--against");
}

commands::TraceSettings trace_settings(const TraceFlags& flags, const Session& session) {
  commands::TraceSettings settings = flags.settings;
  settings.dump = commands::dump_choice(
      flags.keep, flags.layers, flags.type,
      commands::is_one_file(settings.run.output) ? "safetensors" : flags.format);
  settle_backend(settings.run, flags.backend);
  const engine::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.run.ram_budget = budget.bytes;
  settings.run.provenance.ram_budget_source = budget.source_text();
  settings.run.provenance.command = session.arguments;
  settings.run.provenance.unset_variables = session.unset_variables;
  return settings;
}

Ending run_trace(const TraceFlags& flags, const Session& session) {
  refuse_idle_flags(flags);
  const commands::TraceSettings settings = trace_settings(flags, session);
  ConsoleReporter reporter(session, flags.progress);
  const commands::TraceResult result = commands::trace(settings, reporter.hooks());
  reporter.finish();
  if (result.stopped) {
    return stopped_early(
        settings.run.output.empty() && settings.statistics.empty()
            ? std::string("without -o nothing is kept: the same command begins anew")
            : fmt::format("{} of {} layers are kept; run the same command again to go on",
                          result.layers_before, result.layers));
  }
  if (result.unrouted > 0) {
    say(session, fmt::format("warning W-NOT-FINITE: {} times a token's router logits are not "
                             "finite: it went to no expert",
                             result.unrouted));
  }
  if (result.not_finite.any()) {
    say(session, commands::not_finite_text(result.not_finite, ""));
  }
  if (result.not_finite_against.any()) {
    say(session,
        commands::not_finite_text(result.not_finite_against, printable(settings.against) + ": "));
  }
  if (flags.json) {
    print_result(commands::trace_json(result));
  } else if (!session.quiet) {
    print_result(commands::trace_text(result, text_width(STDOUT_FILENO)));
  }
  return {};
}

}  // namespace

void add_trace(Command& app, Session& session) {
  auto flags = std::make_shared<TraceFlags>();
  commands::TraceSettings& settings = flags->settings;
  Command& command = app.add_command(
      "trace",
      "Run prompts through a model and keep its activations\n\n"
      "Examples:\n  vindex trace MODEL --ids prompts.jsonl -o dump\n"
      "  vindex trace MODEL --ids prompts.jsonl -o dump --keep hidden --layers 0,8-15\n"
      "  vindex trace MODEL --ids text.jsonl --against EDITED      what an edit cost\n"
      "  vindex trace MODEL --ids prompts.jsonl --statistics statistics.h5\n"
      "  vindex trace MODEL.gguf --ids p.npy -o dump --format safetensors --dtype bf16\n"
      "One layer's weights are in memory at a time. The same command again goes on after the last "
      "layer that was finished. cka, activations and routing read the dump.");
  command.add_input("model", settings.run.model, "Model folder or file")->required();
  command
      .add_input("--ids", settings.ids,
                 "Prompts as token ids: JSON lines {\"ids\": [1, 5, 9]} or [1, 5, 9], or one "
                 "prompt as .npy")
      ->required();
  command.add_output("-o,--output", settings.run.output, "dump",
                     "Folder of arrays to write, or NAME.safetensors for one file of all");
  command.add_flag("--loss", settings.losses,
                   "What the tokens that came cost: -ln p, mean, error by prompt, perplexity");
  command.add_input("--against", settings.against,
                    "A model that MODEL judges on the same prompts: loss, KL divergence, the same "
                    "first choice");
  command.add_output(
      "--statistics", settings.statistics, "statistics.h5",
      "Results file of statistics by layer (routing, activations, CKA), for which no "
      "activations are kept");
  command.add_flag("--effective-rank", settings.covariance,
                   "Effective ranks in --statistics too, which take as long as small layers do");
  command.add_value("--keep", flags->keep,
                    "Of hidden, mlp, router_logits, logits (default: all but logits)");
  add_layers(command, flags->layers, "Layers whose arrays are kept, for example 0,8-15");
  command.add_value("--dtype", flags->type, "Type of the arrays: f32, f16, bf16 (safetensors)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  command.add_value("--format", flags->format, "npy, safetensors; a file for each array")
      ->check(CLI::IsMember({"npy", "safetensors"}))
      ->capture_default_str();
  add_force(command, settings.replace, "Replace a dump that is there, nothing else");
  command.add_flag("--restart", settings.run.restart,
                   "Begin anew, whatever an earlier run has kept");
  add_model_config(command, settings.run.model_config);
  command.add_input("--against-config", settings.against_config,
                    "config.json of --against, where that is a single .safetensors");
  add_backend_flags(command, flags->backend, "auto, cpu or cuda", "CUDA device");
  add_threads(command, settings.run.threads, "CPU threads (0: every core)");
  add_ram_budget(command, flags->ram_budget);
  add_progress(command, flags->progress);
  command.add_flag("--json", flags->json, "The summary as one JSON document");
  add_config(command);
  command.runs(session, [&session, flags] { return run_trace(*flags, session); });
}

}  // namespace vindex::apps
