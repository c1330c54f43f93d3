// Owns the hooks that a run calls, and the summary, the reason and the last lines of a command that
// ran.
#include "console_reporter.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "engine/run/job_runner.hpp"
#include "report/cells/cells_json.hpp"
#include "report/cells/cells_text.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <unistd.h>

namespace vindex::apps {

namespace {

engine::ProgressMode mode_of_progress(const Session& session, const std::string& progress) {
  static const std::map<std::string, engine::ProgressMode> kProgress = {
      {"auto", engine::ProgressMode::kAuto},
      {"plain", engine::ProgressMode::kPlain},
      {"json", engine::ProgressMode::kJson},
      {"none", engine::ProgressMode::kNone}};
  return session.quiet && progress == "auto" ? engine::ProgressMode::kNone : kProgress.at(progress);
}

}  // namespace

Ending ending_of(const std::string& output, const engine::RunOutcome& outcome, const char* noun) {
  if (outcome.stopped) {
    return stopped_early(fmt::format("{} of {} {} are kept; run the same command again to go on",
                                     outcome.done_before + outcome.measured_now, outcome.total,
                                     noun));
  }
  if (outcome.exit_code == ExitCode::kOk) {
    return {};
  }
  return {outcome.exit_code, fmt::format("E-ROWS: {}; `vindex status {}` lists them",
                                         engine::failure_text(outcome, noun), printable(output))};
}

ConsoleReporter::ConsoleReporter(const Session& session, const std::string& progress)
    : session_(session),
      reporter_(mode_of_progress(session, progress), stderr, is_live(STDERR_FILENO),
                [] { return text_width(STDERR_FILENO); }) {}

ConsoleReporter::ConsoleReporter(const Session& session)
    : ConsoleReporter(session, is_live(STDERR_FILENO) ? "auto" : "none") {}

engine::RunHooks ConsoleReporter::hooks() {
  engine::RunHooks hooks;
  hooks.stop = catch_stop_signals();
  hooks.message = [this](const std::string& line) {
    reporter_.clear();
    say(session_, line);
  };
  hooks.progress = [this](const engine::ProgressSnapshot& snapshot) {
    last_ = snapshot;
    reporter_.update(snapshot);
  };
  return hooks;
}

void ConsoleReporter::finish() {
  if (last_.total.matrices > 0) {
    reporter_.finish(last_);
  }
}

Ending run_job(const engine::RunSettings& settings, const JobFlags& flags, const Session& session,
               const RunReport& report, const RunJob& job) {
  ConsoleReporter reporter(session, flags.progress);
  const engine::RunOutcome outcome = job(reporter.hooks());
  reporter.finish();
  if (report.remark != nullptr && !report.remark->empty()) {
    say(session, *report.remark);
  }
  if (outcome.stopped) {
    return ending_of(settings.output, outcome, report.noun);
  }
  if (outcome.not_finite > 0) {
    say(session, fmt::format("warning W-NOT-FINITE: {} of {} {} hold {}", outcome.not_finite,
                             outcome.total, report.noun, report.not_finite));
  }
  if (settings.worker.is_single() && flags.json) {
    print_result(report.json());
  } else if (settings.worker.is_single() && !session.quiet) {
    const std::size_t width = text_width(STDOUT_FILENO);
    std::string backend;
    const std::string tables = report.text(width, backend);
    print_result(tables + engine::outcome_text(outcome, width, report.noun, session.verbose));
    print_result(fmt::format("results: {}{}\n", printable(settings.output),
                             backend.empty() ? "" : fmt::format(" (back end {})", backend)));
  }
  return ending_of(settings.output, outcome, report.noun);
}

Ending run_cells(const engine::RunSettings& settings, const JobFlags& flags, const Session& session,
                 results::FileSchema schema, const RunJob& job, std::string* remark) {
  const std::string& output = settings.output;
  return run_job(settings, flags, session,
                 {.noun = results::row_noun(schema),
                  .not_finite = "numbers that are not finite; their rows say so",
                  .json = [&] { return report::cells_json(results::read_view(output)); },
                  .text =
                      [&](std::size_t width, std::string& /*backend*/) {
                        return report::cells_text(results::read_view(output), width) + "\n";
                      },
                  .remark = remark},
                 job);
}

}  // namespace vindex::apps
