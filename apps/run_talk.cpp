// Owns the hooks that a run calls, and the last lines of a verb that ran.
#include "run_talk.hpp"

#include "terminal.hpp"

#include <vindex/engine/job_runner.hpp>

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

}  // namespace vindex::apps
