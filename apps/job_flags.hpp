// Owns the flags that verbs share: who computes, and how the verb goes about it. What every job has
// is declared here once.
#pragma once

#include "verbs.hpp"

#include <vindex/measure/backend.hpp>
#include <vindex/results/run_store.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vindex::apps {

/// Flags of every job as typed; settle_job() puts them into its settings.
struct JobFlags {
  std::string ram_budget, worker, progress = "auto";
  std::int32_t threads = 0;
  bool restart = false, json = false;
};

/// Flags of the verbs that have a back end; settle_backend() puts them into their settings.
struct BackendFlags {
  std::string backend = "auto", device = "0";
};

/// Every flag of a job. `workers` says what --threads counts, `document` what --json prints.
void add_job_flags(CLI::App& verb, JobFlags& flags, const char* workers,
                   const char* document = "The table as one JSON document, numbers unrounded");
/// `backends` and `devices` are the help of --backend and --device.
void add_backend_flags(CLI::App& verb, BackendFlags& flags,
                       const char* backends = "auto, cpu or cuda",
                       const char* devices = "all, or numbers of CUDA devices");

// Single ones, for verbs that leave no results file to resume. --config needs no place to go to:
// with_configuration() has read the file before the command line is parsed.
void add_threads(CLI::App& verb, std::int32_t& threads, const char* workers);
void add_ram_budget(CLI::App& verb, std::string& text);
void add_progress(CLI::App& verb, std::string& choice);
void add_config(CLI::App& verb);

/// Reads "i/n". Errors: UsageError E-WORKER. Nothing given: a single run.
results::WorkerShare parse_worker(const std::string& text);

/// Puts `flags` and what the session says of the run into the settings of any job.
template <typename Settings>
void settle_job(Settings& settings, const JobFlags& flags, const Session& session) {
  const run::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.ram_budget = budget.bytes;
  settings.ram_budget_source = budget.source_text();
  settings.worker = parse_worker(flags.worker);
  settings.threads = flags.threads;
  settings.restart = flags.restart;
  settings.command = session.arguments;
}

/// Puts `flags` and what the session says of back ends into the settings of a verb that has one.
template <typename Settings>
void settle_backend(Settings& settings, const BackendFlags& flags, const Session& session) {
  settings.backend = backend_of(flags.backend);
  settings.devices = parse_devices(flags.device);
  settings.blas_core = blas_core_wish();
  settings.unset_variables = session.unset_variables;
}

/// The first of the back ends that `flags` name, for one matrix at a time with its singular
/// vectors; says which it is. `threads`: 0 for every core. Errors: those of run::open_backends().
std::unique_ptr<measure::Backend> open_backend(const BackendFlags& flags, std::int32_t threads,
                                               const Session& session);

}  // namespace vindex::apps
