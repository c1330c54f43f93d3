// Owns the flags of every verb that measures spectra: one set, so that a plan is about the run that
// follows it.
#pragma once

#include "verbs.hpp"

#include <vindex/run/measure_run.hpp>

#include <string>

namespace vindex::apps {

/// Flags as typed; settings() turns them into what the run layer understands.
struct MeasureFlags {
  run::RunSettings settings;
  std::string layers, blocks, roles, tensors, mode = "default", backend = "auto", device = "0",
                                              ram_budget, null = "none", config, worker,
                                              progress = "auto", read = "auto", reshape = "none";
  bool no_escalate = false, no_spectra = false, json = false;
};

run::RunSettings settings_of(const MeasureFlags& flags, const Session& session);

/// What is measured, and how.
void add_measure_flags(CLI::App& verb, MeasureFlags& flags);
/// How a run goes about it: workers, progress, reading, restart.
void add_run_flags(CLI::App& verb, MeasureFlags& flags);

}  // namespace vindex::apps
