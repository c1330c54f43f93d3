// The command organ graft: parts of one model in the place of another's.
#include "organ/graft/graft.hpp"

#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/report_file.hpp"
#include "organ/graft/graft_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

namespace vindex::apps {

namespace {

struct GraftFlags {
  organ::GraftSettings settings;
  std::string shards, report;
  bool json = false;
};

Ending graft_ending(const organ::GraftReport& report) {
  if (report.outcome == organ::GraftOutcome::kStopped) {
    return stopped_early("nothing was written");
  }
  if (report.outcome != organ::GraftOutcome::kRefused) {
    return {};
  }
  const auto first = std::find_if(
      report.findings.begin(), report.findings.end(), [&](const organ::GraftFinding& finding) {
        return organ::is_refused(std::span(&finding, 1), report.settings.force);
      });
  if (first == report.findings.end()) {
    return {ExitCode::kMalformedInput,
            fmt::format("E-GRAFT-NOTHING: none of the {} tensors that were asked for can be taken; "
                        "nothing was written",
                        report.refusals.size())};
  }
  return {ExitCode::kMalformedInput,
          fmt::format("E-GRAFT-REFUSED: {}: {}{}; nothing was written", first->id, first->what,
                      first->advice.empty() ? "" : ": " + first->advice)};
}

Ending run_graft(const GraftFlags& flags, const Session& session) {
  organ::GraftSettings settings = flags.settings;
  settings.shard_bytes = flags.shards.empty() ? 0 : parse_size(flags.shards);
  if (settings.output.empty() && !settings.dry_run) {
    throw UsageError("E-USAGE", "--output is missing; --dry-run needs none");
  }
  settings.stop = catch_stop_signals();
  settings.tool = program_name();
  const ReportFile file(flags.report, "organ-graft/1", {settings.output});
  const organ::GraftReport report = organ::graft_models(settings);
  file.report(
      session, flags.json, [&] { return organ::graft_json(report); },
      [&](std::size_t columns) {
        const bool wrote_model = report.outcome == organ::GraftOutcome::kWritten &&
                                 report.written.files.front().ends_with(".gguf");
        return organ::graft_text(report, columns) +
               (wrote_model ? cost_line(settings.host, report.written.files.front(), columns) : "");
      });
  return graft_ending(report);
}

}  // namespace

void add_organ_graft(Command& organ, Session& session) {
  auto flags = std::make_shared<GraftFlags>();
  organ::GraftSettings& settings = flags->settings;
  Command& command = organ.add_command(
      "graft",
      "Replace tensors of a host model by those of a donor, unchanged\n\n"
      "Examples:\n"
      "  vindex organ graft --source CODER.gguf --target CHAT.gguf -o MIX.gguf \\\n"
      "    --layers 5-20,24                    their feed-forwards with routers\n"
      "  vindex organ graft --source A --target B --dry-run   only checks\n"
      "  vindex organ graft --source DEEP --target B -o C.gguf --map 5-20:8-23\n"
      "  vindex organ graft --source A --target B -o C.gguf --type embed --layers -1\n"
      "  vindex organ graft --source organs-a --target organs-b -o organs-c --type ffn\n"
      "The result is the host (target) everywhere, metadata and tokenizer too, except for "
      "the tensors of the classes in --type and the donor's blocks in --layers.");
  command
      .add_input("--source", settings.donor,
                 "The donor: a GGUF file, its first split, or an extracted folder")
      ->required();
  command.add_input("--target", settings.host, "The host: the same kinds")->required();
  command.add_output("-o,--output", settings.output, "grafted.gguf",
                     "GGUF file to write; a folder of organs where it ends in / or is a folder, or "
                     "where the host is one and it does not end in .gguf");
  command
      .add_value("--type", settings.types,
                 "Classes: organ (feed-forward and its router), ffn (without router), skeleton "
                 "(attention), embed, norm, router, adapter, other, all")
      ->capture_default_str();
  add_layers(command, settings.layers,
             "Blocks of the donor, for example 5-20,24 (-1: what is in no block); without it "
             "and --map all");
  command.add_value(
      "--map", settings.map,
      "Blocks of the donor beside blocks of the host: 5-20:8-23, several with commas");
  command.add_flag("--allow-missing", settings.allow_missing,
                   "Leave out what only one of the models has");
  add_accept_findings(command, settings.force,
                      "Write in spite of errors that are not of shapes or missing tensors");
  command.add_flag("--dry-run", settings.dry_run, "Check, and write nothing");
  command.add_value("--name", settings.name, "general.name of the result");
  command.add_value("--shards", flags->shards, "Write files of at most this size: 2GiB, 500MB");
  add_force(command, settings.replace, "Replace a file that is there");
  add_report(command, flags->report);
  add_threads(command, settings.threads, "Threads (0: every core, at most 8)");
  command.add_flag("--json", flags->json, "The report as one JSON document");
  command.runs(session, [&session, flags] { return run_graft(*flags, session); });
}

}  // namespace vindex::apps
