// Owns the flags that commands share: who computes, and how the command goes about it, declared
// once for every job; and the one set of every command that measures spectra, so that a plan is
// about the run that follows it.
#pragma once

#include "command.hpp"

#include "commands/spectra/measure_run.hpp"
#include "engine/plan/memory_budget.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vindex::apps {

/// Flags of every job as typed; settle_job() puts them into its settings.
struct JobFlags {
  std::string ram_budget, worker, progress = "auto";
  std::int32_t threads = 0;
  bool claim = false, restart = false, json = false;
};

/// Flags of the commands that have a back end; settle_backend() puts them into their settings.
struct BackendFlags {
  std::string backend = "auto", device = "0";
};

/// Every flag of a job. `workers` says what --threads counts, `document` what --json prints.
void add_job_flags(Command& command, JobFlags& flags, const char* workers,
                   const char* document = "The table as one JSON document, numbers unrounded");
/// `backends` and `devices` are the help of --backend and --device.
void add_backend_flags(Command& command, BackendFlags& flags,
                       const char* backends = "auto, cpu or cuda",
                       const char* devices = "all, or numbers of CUDA devices");

// Single ones, for commands that leave no results file to resume. --config needs no place to go to:
// with_configuration() has read the file before the command line is parsed.
void add_threads(Command& command, std::int32_t& threads, const char* workers,
                 std::int32_t most = 1024);
void add_ram_budget(Command& command, std::string& text);
void add_progress(Command& command, std::string& choice);
void add_config(Command& command);

/// `text` ("8GiB") as the budget of a run; empty: what the system and Slurm's variables leave, with
/// a warning on standard error for variables that say nothing. Errors: UsageError E-SIZE.
engine::RamBudget ram_budget_of(const Session& session, const std::string& text);

/// Puts `flags` and what the session says of the run into the settings of any job. Errors: those of
/// engine::worker_share(); UsageError E-CLAIM.
void settle_job(engine::RunSettings& settings, const JobFlags& flags, const Session& session);

/// Puts `flags`, and which kernels OpenBLAS is to take, into the settings of any such command.
void settle_backend(engine::RunSettings& settings, const BackendFlags& flags);

/// Flags of a command with a job that has a back end.
template <typename Settings>
struct JobCommandFlags {
  Settings settings;  ///< its `run` is settled by settle()
  BackendFlags backend;
  JobFlags job;
};

template <typename Settings>
Settings settle(const JobCommandFlags<Settings>& flags, const Session& session) {
  Settings settings = flags.settings;
  settle_backend(settings.run, flags.backend);
  settle_job(settings.run, flags.job, session);
  return settings;
}

/// The first of the back ends that `flags` name, for one matrix at a time with its singular
/// vectors; says which it is. `threads`: 0 for every core. Errors: those of
/// engine::open_backends().
std::unique_ptr<Backend> open_backend(const BackendFlags& flags, std::int32_t threads,
                                      const Session& session);

/// Flags as typed; settings_of() turns them into what the engine understands.
struct MeasureFlags {
  commands::SpectraSettings settings;
  BackendFlags backend;
  JobFlags job;
  std::string layers, blocks, roles, tensors, sample,
      order = "stored", mode = "default", null = "none", read = "auto", reshape = "none";
  std::string disk_budget, disk_folder;
  bool no_escalate = false, no_spectra = false, dry_run = false;
};

/// --disk-budget and --disk-folder.
void add_disk_budget(Command& command, MeasureFlags& flags);

commands::SpectraSettings settings_of(const MeasureFlags& flags, const Session& session);

/// What is measured, and how.
void add_measure_flags(Command& command, MeasureFlags& flags);
/// How much of it is measured, and in which order.
void add_sample_flags(Command& command, MeasureFlags& flags);
/// How a run goes about it: reading, and what every job has. `document` is what --json prints.
void add_run_flags(Command& command, MeasureFlags& flags, const char* document);

/// What --threads counts, for plans too.
inline constexpr const char* kMeasureWorkers = "CPU workers (0: every core)";

}  // namespace vindex::apps
