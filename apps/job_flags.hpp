// Owns the flags that verbs share whose rows are cells and whose products a back end computes
// (experts, cka, activations): who computes, and how the run goes about it.
#pragma once

#include "verbs.hpp"

#include <vindex/run/measure_run.hpp>

#include <string>

namespace vindex::apps {

/// Flags as typed; job_settings() puts them into what the run layer understands.
struct JobFlags {
  std::string backend = "auto", device = "0", ram_budget, worker, progress = "auto", config;
  bool json = false;
};

void add_job_flags(CLI::App& verb, run::RunSettings& settings, JobFlags& flags);

/// `settings` with what `flags` and the session say.
run::RunSettings job_settings(run::RunSettings settings, const JobFlags& flags,
                              const Session& session);

}  // namespace vindex::apps
