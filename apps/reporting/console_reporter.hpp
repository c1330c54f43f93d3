// Owns how commands talk while they work, and how those end whose rows are cells (experts, cka,
// activations, routing).
#pragma once

#include "apps/options/job_flags.hpp"
#include "apps/process/session.hpp"
#include "engine/run/job_runner.hpp"
#include "engine/run/progress.hpp"
#include "results/schema/run_description.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace vindex::apps {

/// How the command ends whose job wrote `output`: what a stop left, or the first row that failed.
/// `noun` says what the rows are.
Ending ending_of(const std::string& output, const engine::RunOutcome& outcome, const char* noun);

/// Progress and messages of one run, on standard error.
class ConsoleReporter {
 public:
  /// `progress`: auto, plain, json or none.
  ConsoleReporter(const Session& session, const std::string& progress);
  /// Of what keeps nothing on its way: a live line, or none where there is no terminal.
  explicit ConsoleReporter(const Session& session);
  /// Refers to this object.
  engine::RunHooks hooks();
  /// Ends the progress line.
  void finish();

 private:
  const Session& session_;
  engine::ProgressReporter reporter_;
  engine::ProgressSnapshot last_;
};

/// What the end of a run reports.
struct RunReport {
  const char* noun = "";        ///< what the rows are
  const char* not_finite = "";  ///< what of theirs may not be finite, and what became of them
  std::function<std::string()> json = {};
  /// The tables, of `width` columns. `backend`: where it was computed, which the last line says.
  std::function<std::string(std::size_t width, std::string& backend)> text = {};
  std::string* remark = nullptr;  ///< that the job leaves, a line to be said; empty: nothing
};

using RunJob = std::function<engine::RunOutcome(const engine::RunHooks& hooks)>;

/// Runs `job`, whose `settings` these are, reports the finished file, as tables or JSON, and how
/// the run went. A stopped run and one share of several have no table.
Ending run_job(const engine::RunSettings& settings, const JobFlags& flags, const Session& session,
               const RunReport& report, const RunJob& job);

/// The same of a job whose rows are cells.
Ending run_cells(const engine::RunSettings& settings, const JobFlags& flags, const Session& session,
                 results::FileSchema schema, const RunJob& job, std::string* remark = nullptr);

}  // namespace vindex::apps
