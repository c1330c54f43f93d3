#include "run_talk.hpp"

#include "terminal.hpp"

#include <vindex/run/summary.hpp>

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <unistd.h>

namespace vindex::apps {

namespace {

run::ProgressMode mode_of_progress(const Session& session, const std::string& progress) {
  static const std::map<std::string, run::ProgressMode> kProgress = {
      {"auto", run::ProgressMode::kAuto},
      {"plain", run::ProgressMode::kPlain},
      {"json", run::ProgressMode::kJson},
      {"none", run::ProgressMode::kNone}};
  return session.quiet && progress == "auto" ? run::ProgressMode::kNone : kProgress.at(progress);
}

}  // namespace

results::WorkerShare parse_worker(const std::string& text) {
  results::WorkerShare share;
  int end = 0;
  if (!text.empty() &&
      (std::sscanf(text.c_str(), "%d/%d%n", &share.index, &share.count, &end) != 2 ||
       static_cast<std::size_t>(end) != text.size() || share.count < 1 || share.index < 0 ||
       share.index >= share.count)) {
    throw UsageError("E-WORKER",
                     fmt::format("--worker `{}`: write i/n with 0 <= i < n", printable(text)));
  }
  return share;
}

void add_worker(CLI::App& verb, std::string& text) {
  verb.add_option("--worker", text, "i/n: take every n-th row from i; then `vindex merge`");
}

void add_progress(CLI::App& verb, std::string& choice) {
  verb.add_option("--progress", choice, "auto, plain, json or none")
      ->check(CLI::IsMember({"auto", "plain", "json", "none"}))
      ->capture_default_str();
}

void add_ram_budget(CLI::App& verb, std::string& text) {
  verb.add_option(
      "--ram-budget", text,
      "Memory, for example 8GiB (default: three quarters of the least that the machine,\n"
      "control groups and Slurm leave)");
}

Ending ending_of(const std::string& output, const run::RunOutcome& outcome, const char* noun) {
  if (outcome.stopped) {
    return stopped_early(fmt::format("{} of {} {} are kept; run the same command again to go on",
                                     outcome.done_before + outcome.measured_now, outcome.total,
                                     noun));
  }
  if (outcome.exit_code == ExitCode::kOk) {
    return {};
  }
  return {outcome.exit_code, fmt::format("E-ROWS: {}; `vindex status {}` tells of them",
                                         run::failure_text(outcome, noun), printable(output))};
}

RunTalk::RunTalk(const Session& session, const std::string& progress)
    : session_(session),
      reporter_(mode_of_progress(session, progress), stderr, is_live(STDERR_FILENO),
                [] { return text_width(STDERR_FILENO); }) {}

run::RunHooks RunTalk::hooks() {
  run::RunHooks hooks;
  hooks.stop_signal = &catch_stop_signals();
  hooks.message = [this](const std::string& line) {
    reporter_.clear();
    say(session_, line);
  };
  hooks.progress = [this](const run::ProgressSnapshot& snapshot) {
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
