// The command organ graft: parts of one model in the place of another's.
#include "flag_names.hpp"
#include "job_flags.hpp"
#include "organ.hpp"
#include "report_file.hpp"

#include "organ/graft/graft.hpp"
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

void add_organ_graft(CLI::App& organ, Session& session) {
  auto flags = std::make_shared<GraftFlags>();
  organ::GraftSettings& settings = flags->settings;
  CLI::App* verb = organ.add_subcommand(
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
  verb->add_option("--source", settings.donor,
                   "The donor: a GGUF file, its first split, or an extracted folder")
      ->required();
  verb->add_option("--target", settings.host, "The host: the same kinds")->required();
  verb->add_option("-o,--output", settings.output,
                   "GGUF file to write; a folder of organs where it ends in / or is a folder, or "
                   "where the host is one and it does not end in .gguf");
  verb->add_option("--type", settings.types,
                   "Classes: organ (feed-forward and its router), ffn (without router), skeleton "
                   "(attention), embed, norm, router, adapter, other, all")
      ->capture_default_str();
  add_layers(*verb, settings.layers,
             "Blocks of the donor, for example 5-20,24 (-1: what is in no block); without it "
             "and --map all");
  verb->add_option("--map", settings.map,
                   "Blocks of the donor beside blocks of the host: 5-20:8-23, several with commas");
  verb->add_flag("--allow-missing", settings.allow_missing,
                 "Leave out what only one of the models has");
  add_accept_findings(*verb, settings.force,
                      "Write in spite of errors that are not of shapes or missing tensors");
  verb->add_flag("--dry-run", settings.dry_run, "Check, and write nothing");
  verb->add_option("--name", settings.name, "general.name of the result");
  verb->add_option("--shards", flags->shards, "Write files of at most this size: 2GiB, 500MB");
  add_force(*verb, settings.replace, "Replace a file that is there");
  verb->add_option("--report", flags->report, "Write the report as JSON to this file");
  add_threads(*verb, settings.threads, "Threads (0: every core, at most 8)");
  verb->add_flag("--json", flags->json, "The report as one JSON document");
  on_choice(*verb, session, [&session, flags] { return run_graft(*flags, session); });
}

}  // namespace vindex::apps
