// The commands plan and measure: one set of flags, so that a plan is about the run that follows it.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "commands/spectra/dry_run.hpp"
#include "commands/spectra/expected_time.hpp"
#include "commands/spectra/measure_run.hpp"
#include "core/json/json_document.hpp"
#include "core/text/size_text.hpp"
#include "engine/run/job_runner.hpp"
#include "engine/run/progress.hpp"
#include "report/spectra/ranks_table.hpp"
#include "report/spectra/spectra_tables.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace vindex::apps {

namespace {

constexpr std::size_t kMaxTableLines = 120;

/// Seconds that the whole of `plan` is on its way at the rate of the sample; 0 where it is none.
double transfer_seconds(const engine::WorkPlan& plan, const commands::AccessProof& proof) {
  return proof.sample_bytes == 0 ? 0.0
                                 : proof.sample_seconds * static_cast<double>(plan.read_bytes) /
                                       static_cast<double>(proof.sample_bytes);
}

std::string proof_text(const engine::WorkPlan& plan, const commands::AccessProof& proof,
                       const std::string& output) {
  std::string out = fmt::format("access            {} file{} of the model read at both ends\n",
                                proof.files, proof.files == 1 ? "" : "s");
  if (proof.sample_bytes > 0) {
    out += fmt::format("transfer          about {} for all, as fast as the first {} came\n",
                       engine::clock_text(transfer_seconds(plan, proof)),
                       data_text(proof.sample_bytes));
  }
  return out + fmt::format("output            can be written at {}\n", printable(output)) +
         "dry run: nothing was measured and nothing is left\n";
}

/// What `vindex plan` prints and, where `flags` ask for a dry run, what it has tried.
Ending show_plan(const MeasureFlags& flags, const Session& session) {
  commands::SpectraSettings settings = settings_of(flags, session);
  // What is tried is fetched, and nothing of it is left.
  const std::uint64_t copies = std::exchange(settings.copies.disk_budget, 0);
  // A plan touches no weights.
  settings.indexing.tied = model::TiedOutput::kComparePlaces;
  const commands::SpectraModel model = commands::open_spectra_model(settings);
  std::string note;
  const auto backends =
      commands::open_spectra_backends(settings, engine::open_devices(settings.run), note);
  const engine::WorkPlan plan = commands::plan_run(settings, model, backends);
  const commands::AccessProof proof =
      flags.dry_run ? commands::prove_access(settings.run, model, plan) : commands::AccessProof{};
  const double seconds = commands::expected_seconds(plan, model.index, settings.run, backends);
  const std::uint64_t disk = commands::needed_disk(plan, copies);
  if (flags.job.json) {
    Json document{{"schema", "vindex-plan/1"},
                  {"units", plan.units.size()},
                  {"matrices", plan.matrices},
                  {"read_bytes", plan.read_bytes},
                  {"least_ram_bytes", plan.least_ram_bytes},
                  {"ram_bytes", plan.ram_bytes},
                  {"output_bytes", plan.output_bytes},
                  {"disk_bytes", disk},
                  {"expected_seconds", seconds}};
    if (settings.sample) {
      document["n_total"] = model.before_sample;
    }
    if (flags.dry_run) {
      document["dry_run"] = {{"files_read", proof.files},
                             {"sample_bytes", proof.sample_bytes},
                             {"sample_seconds", proof.sample_seconds},
                             {"transfer_seconds", transfer_seconds(plan, proof)}};
    }
    print_result(document.dump() + "\n");
    return Ending();
  }
  for (const std::string& line : model.notes) {
    say(session, line);
  }
  say(session, note);
  std::string devices;
  for (const auto& backend : backends) {
    if (const std::uint64_t bytes = backend->limits().device_bytes; bytes > 0) {
      devices +=
          fmt::format("device memory     {} of {} on {}\n",
                      memory_text(commands::device_need(plan, model.index, settings.run, *backend)),
                      memory_text(bytes), backend->info().device);
    }
  }
  print_result(
      fmt::format("matrices          {}\nunits of work     {}, each measured at once\nto read      "
                  "     {}\n"
                  "memory            {} suggested, {} at least, {} allowed\n"
                  "allowed by        {}\n"
                  "read ahead        up to {} of that memory, for weights on their way\n{}"
                  "results file      about {}\ndisk              up to {} while it runs\n"
                  "expected time     about {}, where the storage gives {}/s or more\n",
                  settings.sample ? fmt::format("{} of {}", plan.matrices, model.before_sample)
                                  : std::to_string(plan.matrices),
                  plan.units.size(), data_text(plan.read_bytes), memory_text(plan.ram_bytes),
                  memory_text(plan.least_ram_bytes), memory_text(settings.run.ram_budget),
                  settings.run.provenance.ram_budget_source, memory_text(plan.ring_bytes), devices,
                  data_text(plan.output_bytes), data_text(disk), engine::clock_text(seconds),
                  data_text(static_cast<double>(plan.read_bytes) / std::max(seconds, 1e-3))) +
      (flags.dry_run ? proof_text(plan, proof, settings.run.output) : std::string()));
  return Ending();
}

/// One draw has no z that could mislead.
void say_few_draws(std::int32_t draws, const Session& session) {
  if (draws > 1 && draws < statistics::kRecommendedSignFlipDraws) {
    say(session,
        fmt::format("warning W-NULL-DRAWS: z and p of {} sign flips say little; use {} or more",
                    draws, statistics::kRecommendedSignFlipDraws));
  }
}

std::string tables_text(const std::string& output, std::size_t width, std::string& backend) {
  const report::SpectraView shown = report::read_spectra_view(output, {});
  backend = shown.backend;
  if (shown.is_adapter) {
    return report::ranks_text(output, {}, width);
  }
  std::string text = report::groups_text(shown, width, kMaxTableLines);
  for (const model::ResultTable table : shown.other_tables) {
    report::ShowQuery query;
    query.table = table;
    text += fmt::format("/{}/\n", model::table_name(table)) +
            report::groups_text(report::read_spectra_view(output, query), width, kMaxTableLines);
  }
  return text;
}

Ending run_measure(const MeasureFlags& flags, const Session& session) {
  if (flags.dry_run) {
    return show_plan(flags, session);
  }
  const commands::SpectraSettings settings = settings_of(flags, session);
  say_few_draws(settings.run.options.sign_flip_draws, session);
  return run_job(
      settings.run, flags.job, session,
      {.noun = "matrices",
       .not_finite = "weights that are not finite; their rows say so and have no metrics",
       .json =
           [&] { return report::groups_json(report::read_spectra_view(settings.run.output, {})); },
       .text =
           [&](std::size_t width, std::string& backend) {
             return tables_text(settings.run.output, width, backend);
           }},
      std::bind_front(commands::measure_model, std::cref(settings)));
}

void add_model(Command& command, MeasureFlags& flags) {
  command.add_input("model", flags.settings.run.model, "Model folder or file")->required();
}

}  // namespace

void add_plan(Command& app, Session& session) {
  auto flags = std::make_shared<MeasureFlags>();
  Command& command = app.add_command("plan",
                                     "Estimate time, memory and disk; touches no weights\n\n"
                                     "Examples:\n  vindex plan MODEL --blocks routed_expert\n"
                                     "  vindex plan MODEL --sample 16");
  add_model(command, *flags);
  add_measure_flags(command, *flags);
  add_sample_flags(command, *flags);
  add_threads(command, flags->job.threads, kMeasureWorkers);
  add_ram_budget(command, flags->job.ram_budget);
  add_disk_budget(command, *flags);
  command.add_flag("--json", flags->job.json, "One JSON document");
  add_config(command);
  command.runs(session, [&session, flags] { return show_plan(*flags, session); });
}

void add_measure(Command& app, Session& session) {
  auto flags = std::make_shared<MeasureFlags>();
  Command& command = app.add_command("measure",
                                     "Measure every matrix: spectrum, statistics, noise null\n\n"
                                     "Examples:\n  vindex measure MODEL -o spectra.h5\n"
                                     "  vindex measure MODEL -o k2.h5 --blocks routed_expert "
                                     "--layers 1-60\n"
                                     "  vindex measure MODEL -o k2.h5 --sample 16     16 experts "
                                     "of each layer\nThe same command again resumes.");
  add_model(command, *flags);
  add_measure_flags(command, *flags);
  add_sample_flags(command, *flags);
  add_results_file(command, flags->settings.run.output);
  command.add_flag("--dry-run", flags->dry_run,
                   "Plan, and try everything that the run needs: read of every file, output, disk");
  add_run_flags(command, *flags, "What `vindex show --json` prints of the results file");
  command.runs(session, [&session, flags] { return run_measure(*flags, session); });
}

}  // namespace vindex::apps
