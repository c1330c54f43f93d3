// The command edit: low-rank changes of a model, as a model, an adapter and a patch.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "apps/reporting/report_file.hpp"
#include "commands/edit/edit_model.hpp"
#include "core/text/text_parts.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

struct EditFlags {
  edit::EditSettings settings;
  std::vector<std::string> direction;
  std::string side, as = "model", slice, report, ram_budget;
  BackendFlags backend;
  bool json = false;
};

/// `--direction feature F` takes two words; where the first is a file the second was the model.
void settle_words(EditFlags& flags) {
  edit::EditSettings& settings = flags.settings;
  if (settings.kind == edit::EditKind::kDelete) {
    const bool is_word = flags.direction[0] == "feature" || flags.direction[0] == "singular";
    if (flags.direction.size() == 2 && !is_word && settings.model.empty()) {
      settings.model = flags.direction[1];
      flags.direction.pop_back();
    }
    if (flags.direction.size() == 2 && !is_word) {
      throw UsageError("E-USAGE",
                       fmt::format("--direction {} {}: one file, or feature F, or "
                                   "singular I",
                                   printable(flags.direction[0]), printable(flags.direction[1])));
    }
    settings.direction = edit::parse_direction(fmt::format("{}", fmt::join(flags.direction, " ")));
  }
  if (settings.model.empty()) {
    throw UsageError("E-USAGE", "the model is missing: vindex edit COMMAND MODEL ...");
  }
}

void settle_slice(EditFlags& flags) {
  if (flags.slice.empty()) {
    return;
  }
  if (flags.slice == "all") {
    flags.settings.every_slice = true;
    return;
  }
  const auto number = whole_number<std::int32_t>(flags.slice);
  if (!number || *number < 0) {
    throw UsageError("E-SLICE",
                     fmt::format("--slice {}: a number from 0 on, or all", printable(flags.slice)));
  }
  flags.settings.slice = *number;
}

edit::EditSettings edit_settings(EditFlags flags, const Session& session) {
  settle_words(flags);
  settle_slice(flags);
  edit::EditSettings settings = flags.settings;
  if (settings.kind != edit::EditKind::kApply &&
      settings.tensor.empty() == settings.tensors.empty()) {
    throw UsageError("E-USAGE", settings.kind == edit::EditKind::kDelete
                                    ? "name the matrix with --tensor, or several with --tensors"
                                    : "name the matrix with --tensor");
  }
  if (!settings.tensors.empty() && !flags.slice.empty()) {
    throw UsageError("E-USAGE", "--tensors takes every slice; --slice belongs to --tensor");
  }
  if (!settings.layers.empty() && settings.tensors.empty()) {
    throw UsageError("E-USAGE", "--layers belongs to --tensors");
  }
  if (!flags.side.empty()) {
    settings.side = flags.side == "left" ? edit::Side::kLeft : edit::Side::kRight;
  }
  settings.report = flags.report;
  settings.as_lora = flags.as == "lora";
  settings.ram_budget = ram_budget_of(session, flags.ram_budget).bytes;
  settings.program = program_name();
  settings.stop = catch_stop_signals();
  settings.backend = [backend = flags.backend, threads = settings.threads, &session] {
    return open_backend(backend, threads, session);
  };
  return settings;
}

Ending run_edit(const EditFlags& flags, const Session& session) {
  edit::EditSettings settings = edit_settings(flags, session);
  const ReportFile file(flags.report, "vindex-edit/1");
  ConsoleReporter reporter(session);
  settings.progress = reporter.hooks().progress;
  const edit::EditResult result = edit::edit_model(settings);
  reporter.finish();
  if (result.stopped) {
    return stopped_early("nothing was written");
  }
  say_warnings(session, result.warnings);
  file.report(
      session, flags.json, [&] { return edit::edit_json(result); },
      [&](std::size_t columns) {
        const bool wrote_model = !settings.output.empty() && !settings.as_lora;
        return edit::edit_text(result, columns) +
               (wrote_model ? cost_line(settings.model, settings.output, columns) : "");
      });
  return {};
}

/// What every one of these commands has.
Command& add_edit_command(Command& edit, Session& session, const std::shared_ptr<EditFlags>& flags,
                          const char* name, const char* help) {
  Command& command = edit.add_command(name, help);
  edit::EditSettings& settings = flags->settings;
  command.add_input("model", settings.model, "Model folder or file");
  command.add_output(
      "-o,--output", settings.output, "edited{suffix}",
      "The edited model: a file where the model is one, else a folder; with --as lora "
      "the adapter. Without it only the report is made");
  command.add_value("--as", flags->as, "model, or lora: a PEFT folder, of a GGUF model a .gguf")
      ->check(CLI::IsMember({"model", "lora"}))
      ->capture_default_str();
  command.add_output(
      "--save-patch", settings.save_patch, "patch.safetensors",
      "Write the edit as a patch too (.safetensors): `edit apply --alpha -1` undoes it");
  command.add_input("--probe", settings.probe,
                    "Inputs of the matrix, one per row (.npy): what the edit changes there");
  command.add_input(
      "--covariance", settings.covariance,
      "C (.npy), in x in: E[x x^T] of usual inputs: what the edit changes there; memit "
      "solves with it, without it with the identity");
  add_force(command, settings.replace);
  add_report(command, flags->report);
  add_model_config(command, settings.model_config);
  add_threads(command, settings.threads, "Threads (0: every core)");
  add_ram_budget(command, flags->ram_budget);
  command.add_flag("--json", flags->json, "The report as one JSON document");
  add_config(command);
  command.runs(session, [&session, flags] { return run_edit(*flags, session); });
  return command;
}

void add_tensor(Command& command, EditFlags& flags) {
  command.add_value("--tensor", flags.settings.tensor, "Logical name of the matrix");
  command.add_value("--slice", flags.slice, "Slice of a stack (expert, head): a number, or all");
}

void add_delete(Command& edit, Session& session) {
  auto flags = std::make_shared<EditFlags>();
  flags->settings.kind = edit::EditKind::kDelete;
  Command& command = add_edit_command(
      edit, session, flags, "delete",
      "Remove a direction from a matrix\n\n"
      "Examples:\n"
      "  vindex edit delete MODEL --tensor model.layers.1.self_attn.o_proj.weight \\\n"
      "    --direction v.npy --side left -o EDITED\n"
      "  vindex edit delete model.gguf --tensor blk.3.ffn_gate_exps.weight --slice 5 \\\n"
      "    --direction feature 12 -o edited.gguf\n"
      "  vindex edit delete MODEL --tensor lm_head.weight --direction singular 0 \\\n"
      "    -o EDITED --save-patch undo.safetensors\n"
      "  vindex edit delete MODEL --tensors '.*(o_proj|down_proj)\\.weight' \\\n"
      "    --layers 8-20 --direction v.npy --side left --as lora -o ADAPTER\n"
      "Right: W - alpha W v v^T; left: W - alpha u u^T W. W is out x in whatever the "
      "storage: right is the side of inputs.");
  add_tensor(command, *flags);
  command.add_value("--tensors", flags->settings.tensors,
                    "Several: regular expression for the whole logical name");
  add_layers(command, flags->settings.layers, "Of --tensors these layers: 0,1,15-20");
  command
      .add(ValueKind::kDirection, "--direction", flags->direction,
           "A vector (.npy); `feature F`: row F of the gate_proj of the same MLP; `singular "
           "I`: the I-th singular vector, 0 is the largest")
      ->expected(1, 2)
      ->required();
  command
      .add_value("--side", flags->side,
                 "right: out of what the matrix reads (inputs); left: out of what it writes "
                 "(outputs). Without it right, but a square matrix needs it")
      ->check(CLI::IsMember({"right", "left"}));
  add_number(command, "--alpha", flags->settings.alpha, "How much of it: 1 all, 2 reflects")
      ->capture_default_str();
  add_backend_flags(command, flags->backend, "auto, cpu, cuda: what computes singular vectors",
                    "CUDA device");
}

void add_insert(Command& edit, Session& session) {
  auto flags = std::make_shared<EditFlags>();
  flags->settings.kind = edit::EditKind::kInsert;
  Command& command = add_edit_command(
      edit, session, flags, "insert",
      "Add d to the output for the key k: W + d k^T / (k . k)\n\n"
      "Example:\n  vindex edit insert MODEL --tensor model.layers.3.mlp.down_proj.weight \\\n"
      "    --key k.npy --value d.npy -o EDITED");
  add_tensor(command, *flags);
  command.add_input("--key", flags->settings.key, "k (.npy), as many numbers as W has inputs")
      ->required();
  command.add_input("--value", flags->settings.value, "d (.npy), as many as W has outputs")
      ->required();
}

void add_memit(Command& edit, Session& session) {
  auto flags = std::make_shared<EditFlags>();
  flags->settings.kind = edit::EditKind::kMemit;
  Command& command = add_edit_command(
      edit, session, flags, "memit",
      "Many keys at once: W + D (K^T C^-1 K + ridge I)^-1 K^T C^-1\n\n"
      "Example:\n  vindex edit memit MODEL --tensor model.layers.3.mlp.down_proj.weight \\\n"
      "    --keys K.npy --values D.npy --covariance C.npy -o EDITED\n"
      "Keys and values are columns.");
  add_tensor(command, *flags);
  command.add_input("--keys", flags->settings.keys, "K (.npy), in x n")->required();
  command
      .add_input("--values", flags->settings.values,
                 "D (.npy), out x n: what is added to the outputs at the keys")
      ->required();
  add_number(command, "--ridge", flags->settings.ridge, "Added to the diagonal of K^T C^-1 K",
             {.min = 0.0})
      ->capture_default_str();
}

void add_apply(Command& edit, Session& session) {
  auto flags = std::make_shared<EditFlags>();
  flags->settings.kind = edit::EditKind::kApply;
  Command& command = add_edit_command(
      edit, session, flags, "apply",
      "Add a patch or a LoRA adapter (PEFT, MLX, GGUF) to a model\n\n"
      "Examples:\n  vindex edit apply MODEL --patch undo.safetensors --alpha -1 -o RESTORED\n"
      "  vindex edit apply MODEL --patch ADAPTER_FOLDER -o MERGED\n"
      "A patch records digests of the weights before and after it; other weights need "
      "--accept-findings.");
  command.add_input("--patch", flags->settings.patch, "Patch (.safetensors) or adapter")
      ->required();
  add_number(command, "--alpha", flags->settings.alpha, "Multiplies the edit; -1 takes it back")
      ->capture_default_str();
  add_accept_findings(command, flags->settings.force,
                      "Also to other weights; of an adapter the factors alone");
  command.add_flag("--accept-unknown-base", flags->settings.accept_unknown_base,
                   "Also a patch that does not say which weights it was made from");
}

}  // namespace

void add_edit(Command& app, Session& session) {
  Command& edit = app.add_command(
      "edit",
      "Change a model by low-rank edits: delete, insert, apply\n\n"
      "Examples:\n"
      "  vindex edit delete MODEL --tensor NAME --direction v.npy --side left -o EDITED\n"
      "  vindex edit insert MODEL --tensor NAME --key k.npy --value d.npy -o EDITED\n"
      "  vindex edit memit MODEL --tensor NAME --keys K.npy --values D.npy -o EDITED\n"
      "  vindex edit apply EDITED --patch undo.safetensors --alpha -1 -o RESTORED\n"
      "`vindex edit COMMAND --help`: options and examples.");
  edit.require_subcommand(1);
  add_delete(edit, session);
  add_insert(edit, session);
  add_memit(edit, session);
  add_apply(edit, session);
}

}  // namespace vindex::apps
