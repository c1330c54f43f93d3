// The command organ extract: a model taken apart, tensor by tensor; or many of them.
#include "organ/extract/extract.hpp"

#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "core/json/json_document.hpp"
#include "core/text/size_text.hpp"
#include "core/text/text_table.hpp"
#include "fleet/dissect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unistd.h>

namespace vindex::apps {

namespace {

std::string extract_json(const organ::ExtractSettings& settings,
                         const organ::ExtractReport& report) {
  Json json = {
      {"schema", "organ-extract/1"}, {"model", settings.model},
      {"output", settings.output},   {"storage", settings.by_reference ? "reference" : "files"},
      {"tensors", report.tensors},   {"tensors_total", report.tensors_total},
      {"bytes", report.bytes},       {"bytes_sharing_blocks", report.cloned},
      {"seconds", report.seconds},   {"classes", organ::class_counts_json(report.classes)}};
  return json.dump(2) + "\n";
}

std::string extract_text(const organ::ExtractSettings& settings,
                         const organ::ExtractReport& report) {
  std::string text =
      fmt::format("{:<10} {:>8} {:>16} {:>12}\n", "class", "tensors", "weights", "bytes");
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const organ::ClassCount& count = report.classes.at(i);
    if (count.tensors > 0) {
      text += fmt::format("{:<10} {:>8} {:>16} {:>12}\n",
                          organ::class_name(static_cast<organ::OrganClass>(i)), count.tensors,
                          count.params, data_text(count.bytes));
    }
  }
  const bool read = !settings.by_reference || settings.digests;
  text += fmt::format("{} of {} tensors {} {}: {}\n", report.tensors, report.tensors_total,
                      settings.by_reference ? "by reference in" : "in", printable(settings.output),
                      read ? rate_text(report.bytes, report.seconds)
                           : fmt::format("{} not copied, {:.0f} ms", data_text(report.bytes),
                                         1e3 * report.seconds));
  return text;
}

struct ExtractFlags {
  organ::ExtractSettings settings;
  std::vector<std::string> models, fleet;
  bool json = false;
};

/// Every model into a folder of its own; one that fails is a row, the others go on.
Ending run_dissection(const ExtractFlags& flags, const Session& session) {
  organ::ExtractSettings settings = flags.settings;
  settings.tool = program_name();
  settings.stop = catch_stop_signals();
  const std::string folder = settings.output;
  const fleet::EarlierSeconds earlier = fleet::earlier_dissection(folder);
  std::vector<fleet::DissectedModel> models;
  std::optional<ExitCode> first_code;
  std::string first_trouble;
  const auto count_done = [&] {
    return std::count_if(models.begin(), models.end(),
                         [](const auto& model) { return model.report.has_value(); });
  };
  for (const fleet::NamedModel& named : fleet::models_to_dissect(flags.models, flags.fleet)) {
    fleet::DissectedModel model;
    try {
      model = fleet::dissect(named, folder, settings, earlier);
    } catch (const Error& error) {
      model = {.name = named.name, .path = named.path, .folder = {}, .failure = error.what()};
      say(session, fmt::format("{}: {}", printable(named.name), error.what()));
      if (!first_code) {
        first_code = error.exit_code();
        first_trouble = error.what();
      }
    }
    if (model.report && model.report->stopped) {
      return stopped_early(fmt::format("{} models lie whole in {}; the same command goes on",
                                       count_done(), printable(folder)));
    }
    if (model.report && !model.earlier) {
      say_warnings(session, model.report->warnings);
      say(session, fmt::format("{}: {}", printable(named.name),
                               rate_text(model.report->bytes, model.report->seconds)));
    }
    models.push_back(std::move(model));
    if (count_done() > 0) {
      fleet::write_dissection(folder, models, settings.by_reference);
    }
  }
  if (flags.json) {
    print_result(fleet::dissection_json(models, settings.by_reference));
  } else if (!session.quiet) {
    print_result(fleet::dissection_text(models, text_width(STDOUT_FILENO), settings.by_reference));
  }
  if (!first_code) {
    return Ending();
  }
  return Ending(*first_code,
                fmt::format("{} ({} of {} models not taken apart)", first_trouble,
                            models.size() - static_cast<std::size_t>(count_done()), models.size()));
}

Ending run_extract(const ExtractFlags& flags, const Session& session) {
  if (flags.models.empty() && flags.fleet.empty()) {
    throw UsageError("E-USAGE", "a MODEL or --fleet DIR is expected");
  }
  if (flags.models.size() != 1 || !flags.fleet.empty()) {
    return run_dissection(flags, session);
  }
  const bool json = flags.json;
  organ::ExtractSettings settings = flags.settings;
  settings.model = flags.models.front();
  settings.tool = program_name();
  settings.stop = catch_stop_signals();
  const organ::ExtractReport report = organ::extract(settings);
  if (report.stopped) {
    return stopped_early("nothing of " + printable(settings.output) + " is kept");
  }
  say_warnings(session, report.warnings);
  if (json || !session.quiet) {
    print_result(json ? extract_json(settings, report) : extract_text(settings, report));
  }
  return {};
}

}  // namespace

void add_organ_extract(Command& organ, Session& session) {
  auto options = std::make_shared<ExtractFlags>();
  organ::ExtractSettings& settings = options->settings;
  Command& command = organ.add_command(
      "extract",
      "Split models: a valid GGUF for each tensor, and a manifest\n\n"
      "Examples:\n  vindex organ extract model.gguf -o organs\n"
      "  vindex organ extract model-00001-of-00005.gguf -o organs --by-reference\n"
      "  vindex organ extract model.gguf -o ffn --type organ --layers 5-20\n"
      "  vindex organ extract A.gguf B.gguf C.gguf -o fleet    each in fleet/NAME\n"
      "  vindex organ extract --fleet MODELS -o fleet    the same command resumes\n"
      "`vindex organ assemble organs -o again.gguf` gives back the same bytes.");
  command.add_input("model", options->models, "GGUF files, splits or folders; or safetensors");
  command.add_input("--fleet", options->fleet, "Every model at or below these folders");
  command
      .add_output("-o,--output", settings.output, "organs",
                  "Folder to create; of several models one that gets a folder for each, and "
                  "dissection_report.json")
      ->required();
  command.add_flag("--by-reference", settings.by_reference,
                   "Copy nothing: the manifest says where the bytes lie");
  command.add_flag("--digests", settings.digests,
                   "With --by-reference: digest every tensor (reads all of it); copies always have "
                   "digests");
  command.add_value(
      "--type", settings.types,
      "Classes: skeleton, organ (feed-forward, with router), ffn (without it), embed, "
      "norm, adapter, router, other, all");
  add_layers(command, settings.layers, "Blocks, for example 0,1,5-20 (-1: what is in no block)");
  add_threads(command, settings.threads, "Threads that copy (0: by the machine)", 64);
  command.add_flag("--json", options->json, "Report as one JSON document");
  command.runs(session, [&session, options] { return run_extract(*options, session); });
}

}  // namespace vindex::apps
