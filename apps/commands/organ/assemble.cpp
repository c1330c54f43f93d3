// The command organ assemble: a model put together from organs, or from several by a recipe.
#include "organ/assemble/assemble.hpp"

#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "core/json/json_document.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

namespace {

struct AssembleFlags {
  organ::AssembleSettings settings;
  std::string shards;
  bool json = false;
};

std::string assemble_json(const organ::AssembleReport& report) {
  const Json json = {
      {"schema", "organ-assemble/1"},   {"files", report.composed.files},
      {"bytes", report.composed.bytes}, {"bytes_sharing_blocks", report.composed.cloned},
      {"tensors", report.tensors},      {"changed", report.changed},
      {"notes", report.notes},          {"seconds", report.seconds}};
  return json.dump(2) + "\n";
}

std::string assemble_text(const organ::AssembleReport& report) {
  std::string text;
  for (const std::string& note : report.notes) {
    text += printable(note) + "\n";
  }
  for (const std::string& name : report.changed) {
    text += fmt::format("changed: {}\n", printable(name));
  }
  for (const std::string& file : report.composed.files) {
    text += printable(file) + "\n";
  }
  return text + fmt::format("{} tensors: {}\n", report.tensors,
                            rate_text(report.composed.bytes, report.seconds));
}

Ending run_assemble(const AssembleFlags& options, const Session& session) {
  organ::AssembleSettings settings = options.settings;
  settings.stop = catch_stop_signals();
  if (options.shards == "none") {
    settings.shard_bytes = 0;
  } else if (!options.shards.empty()) {
    settings.shard_bytes = parse_size(options.shards);
  }
  const organ::AssembleReport report = organ::assemble(settings);
  if (report.composed.stopped) {
    return stopped_early("nothing of " + printable(settings.output) + " is kept");
  }
  say_warnings(session, report.warnings);
  if (options.json || !session.quiet) {
    print_result(options.json ? assemble_json(report) : assemble_text(report));
  }
  return {};
}

}  // namespace

void add_organ_assemble(Command& organ, Session& session) {
  auto options = std::make_shared<AssembleFlags>();
  organ::AssembleSettings& settings = options->settings;
  Command& command = organ.add_command(
      "assemble",
      "Build a GGUF model from organs, or from several by a recipe\n\n"
      "Examples:\n  vindex organ assemble organs -o again.gguf\n"
      "  vindex organ assemble organs -o merged.gguf --shards none\n"
      "  vindex organ assemble model-00001-of-00005.gguf -o shards/ --shards 2GB\n"
      "  vindex organ assemble recipe.json -o chimera.gguf");
  command.add_input("input", settings.input, "Extracted folder, recipe (JSON), or any GGUF model")
      ->required();
  command
      .add_output("-o,--output", settings.output, "assembled.gguf",
                  "File; a folder that exists: the source's names in it")
      ->required();
  command.add_value("--shards", options->shards,
                    "Bytes of tensors per file, or none for one file (default: as the source was)");
  command.add_flag(
      "--accept-changed", settings.accept_changed,
      "Take organs that were edited since they were extracted, and say so in the keys");
  add_force(command, settings.replace, "Replace files that are there, never an input");
  add_threads(command, settings.threads, "Threads that copy (0: by the machine)", 64);
  command.add_flag("--json", options->json, "Report as one JSON document");
  command.runs(session, [&session, options] { return run_assemble(*options, session); });
}

}  // namespace vindex::apps
