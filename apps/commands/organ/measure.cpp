// The command organ measure: theta of one model or of a fleet, with the reports.
#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/process/session.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "core/files/path_kind.hpp"
#include "engine/run/job_runner.hpp"
#include "fleet/measure_fleet.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace vindex::apps {

namespace {

namespace fs = std::filesystem;

struct OrganMeasureFlags {
  MeasureFlags measure;
  std::vector<std::string> models, fleet;
  std::string output, report;
};

/// What the command asks for, once it is understood.
struct Task {
  commands::SpectraSettings settings;  ///< but for model and output
  std::vector<fleet::NamedModel> models;
  std::string folder;        ///< of results and reports; empty: one results file alone
  std::string results_file;  ///< of a single model with an output ending in .h5
};

Task task_of(const OrganMeasureFlags& flags, const Session& session) {
  Task task;
  std::vector<std::string> paths = flags.models;
  for (const std::string& folder : flags.fleet) {
    const std::vector<std::string> found = fleet::find_models(folder);
    paths.insert(paths.end(), found.begin(), found.end());
  }
  if (paths.empty()) {
    throw UsageError("E-USAGE", "a MODEL or --fleet DIR is expected");
  }
  task.models = fleet::named_models(paths);
  task.settings = settings_of(flags.measure, session);
  const bool is_file = fs::path(flags.output).extension() == ".h5";
  if (is_file && (paths.size() > 1 || !flags.fleet.empty())) {
    throw UsageError("E-ORGAN-OUTPUT", fmt::format("{}: several models go into a folder, each with "
                                                   "a results file of its own",
                                                   printable(flags.output)));
  }
  if (!is_file && !flags.report.empty()) {
    throw UsageError("E-ORGAN-OUTPUT",
                     "--report goes with an output that ends in .h5; a folder "
                     "holds the reports itself");
  }
  if (!is_file && !task.settings.run.worker.is_single()) {
    throw UsageError("E-ORGAN-OUTPUT", "--worker and --claim go with an output that ends in .h5");
  }
  task.folder = is_file ? flags.report : flags.output;
  task.results_file = is_file ? flags.output : "";
  return task;
}

/// One model of the task. A fleet goes on where one fails: `model.failure` says why.
struct Measured {
  fleet::FleetModel model;
  std::optional<engine::RunOutcome> outcome;
  std::optional<ExitCode> failed_with;
};

Measured measure_one(const Task& task, const fleet::NamedModel& named, const std::string& progress,
                     const Session& session) {
  Measured out;
  out.model.name = named.name;
  out.model.path = named.path;
  commands::SpectraSettings settings = task.settings;
  settings.run.model = named.path;
  settings.run.output = task.results_file.empty()
                            ? (fs::path(task.folder) / (named.name + ".h5")).string()
                            : task.results_file;
  const bool is_alone = task.models.size() == 1;
  ConsoleReporter reporter(session, progress);
  try {
    engine::RunOutcome outcome;
    out.model.measure = fleet::measure_model(settings, named.name, reporter.hooks(), outcome);
    reporter.finish();
    if (out.model.measure && std::isnan(out.model.measure->seconds) && !task.folder.empty()) {
      out.model.measure->seconds = fleet::earlier_seconds(task.folder, named.name);
    }
    out.outcome = std::move(outcome);
  } catch (const Error& error) {
    reporter.finish();
    if (is_alone) {
      throw;
    }
    out.model.failure = error.what();
    out.failed_with = error.exit_code();
    say(session, fmt::format("{}: {}", printable(named.name), error.what()));
  }
  return out;
}

void print_results(const OrganMeasureFlags& flags, const Task& task, const Session& session,
                   const std::vector<fleet::FleetModel>& models) {
  if (flags.measure.job.json) {
    print_result(fleet::ranking_json(models));
  } else if (!session.quiet) {
    print_result(fleet::ranking_text(models, text_width(STDOUT_FILENO)));
    print_result(task.folder.empty()
                     ? fmt::format("results: {}\n", printable(task.results_file))
                     : fmt::format("reports: {}\n",
                                   printable((fs::path(task.folder) / "report.md").string())));
  }
}

/// A folder and those above it that were not there; removed where they stay empty: a refusal leaves
/// nothing.
class NewFolders {
 public:
  explicit NewFolders(const std::string& folder) {
    for (fs::path at = folder; !at.empty() && path_kind(at.string()) == PathKind::kAbsent;
         at = at.parent_path()) {
      folders_.push_back(at);
    }
    std::error_code error;
    fs::create_directories(folder, error);  // the first file reports what is wrong
  }
  ~NewFolders() {
    for (const fs::path& folder : folders_) {  // innermost first
      ::rmdir(folder.c_str());
    }
  }
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;

 private:
  std::vector<fs::path> folders_;
};

Ending run_organ_measure(const OrganMeasureFlags& flags, const Session& session) {
  const Task task = task_of(flags, session);
  std::optional<NewFolders> folders;
  if (task.results_file.empty()) {
    folders.emplace(task.folder);
  }
  std::vector<fleet::FleetModel> models;
  std::optional<Measured> first_trouble;
  for (const fleet::NamedModel& named : task.models) {
    Measured one = measure_one(task, named, flags.measure.job.progress, session);
    if (one.outcome && one.outcome->stopped) {
      return ending_of(task.results_file.empty() ? task.folder : task.results_file, *one.outcome,
                       "matrices");
    }
    models.push_back(one.model);
    const bool has_trouble =
        one.failed_with || (one.outcome && one.outcome->exit_code != ExitCode::kOk);
    if (has_trouble && !first_trouble) {
      first_trouble = std::move(one);
    }
  }
  if (task.settings.run.worker.is_single()) {
    if (!task.folder.empty()) {
      fleet::write_reports(task.folder, models);
    }
    print_results(flags, task, session, models);
  }
  if (!first_trouble) {
    return Ending();
  }
  if (first_trouble->failed_with) {
    return Ending(*first_trouble->failed_with,
                  fmt::format("{} of {} models not measured; {}: {}",
                              std::count_if(models.begin(), models.end(),
                                            [](const auto& model) { return !model.measure; }),
                              models.size(), printable(first_trouble->model.name),
                              first_trouble->model.failure));
  }
  return ending_of(task.results_file.empty() ? task.folder : task.results_file,
                   *first_trouble->outcome, "matrices");
}

}  // namespace

void add_organ_measure(Command& organ, Session& session) {
  auto flags = std::make_shared<OrganMeasureFlags>();
  Command& command = organ.add_command(
      "measure",
      "Theta of every tensor: the distance of a matrix from its noise\n\n"
      "Examples:\n  vindex organ measure model.gguf -o OUT          results and reports in OUT\n"
      "  vindex organ measure model.gguf -o model.h5     the results file alone\n"
      "  vindex organ measure --fleet MODELS -o OUT      every model in MODELS, ranked\n"
      "The same command again resumes.");
  command.add_input("model", flags->models, "Model folders or files");
  command.add_input("--fleet", flags->fleet, "Every model at or below these folders");
  command
      .add_output("-o,--output", flags->output, "{inputs}.h5",
                  "Folder of results and reports, or a results file ending in .h5")
      ->required();
  command.add_output("--report", flags->report, "reports",
                     "Folder of the reports, beside an output in .h5");
  add_measure_flags(command, flags->measure);
  add_run_flags(command, flags->measure, "The ranking as one JSON document");
  command.runs(session, [&session, flags] { return run_organ_measure(*flags, session); });
}

}  // namespace vindex::apps
