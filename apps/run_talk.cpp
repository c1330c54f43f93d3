// Owns the hooks that a run calls, and the summary, the reason and the last lines of a verb that
// ran.
#include "run_talk.hpp"

#include "verbs.hpp"

#include "engine/job_runner.hpp"
#include "report/cells_text.hpp"
#include "results/shown_cells.hpp"

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

RunTalk::RunTalk(const Session& session, const std::string& progress)
    : session_(session),
      reporter_(mode_of_progress(session, progress), stderr, is_live(STDERR_FILENO),
                [] { return text_width(STDERR_FILENO); }) {}

RunTalk::RunTalk(const Session& session)
    : RunTalk(session, is_live(STDERR_FILENO) ? "auto" : "none") {}

engine::RunHooks RunTalk::hooks() {
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

void RunTalk::finish() {
  if (last_.total.matrices > 0) {
    reporter_.finish(last_);
  }
}

Ending end_of_cells(const EndedRun& run, const engine::RunOutcome& outcome,
                    const Session& session) {
  const char* const noun = results::row_noun(run.schema);
  if (outcome.stopped) {
    return ending_of(run.output, outcome, noun);
  }
  if (outcome.not_finite > 0) {
    say(session, fmt::format("warning W-NOT-FINITE: {} of {} {} hold numbers that are not finite; "
                             "their rows say so",
                             outcome.not_finite, outcome.total, noun));
  }
  if (run.worker.count == 1 && run.json) {
    print_result(report::cells_json(results::read_shown_cells(run.output)));
  } else if (run.worker.count == 1 && !session.quiet) {
    const std::size_t width = text_width(STDOUT_FILENO);
    print_result(report::cells_text(results::read_shown_cells(run.output), width) + "\n" +
                 engine::outcome_text(outcome, width, noun));
    print_result(fmt::format("results: {}\n", printable(run.output)));
  }
  return ending_of(run.output, outcome, noun);
}

}  // namespace vindex::apps
