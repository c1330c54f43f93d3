// Owns the flags of every verb that measures spectra: one set, so that a plan is about the run that
// follows it.
#pragma once

#include "job_flags.hpp"

#include <vindex/jobs/spectra/measure_run.hpp>

#include <string>

namespace vindex::apps {

/// Flags as typed; settings() turns them into what the run layer understands.
struct MeasureFlags {
  engine::RunSettings settings;
  BackendFlags backend;
  JobFlags job;
  std::string layers, blocks, roles, tensors, mode = "default", null = "none", read = "auto",
                                              reshape = "none";
  bool no_escalate = false, no_spectra = false;
};

engine::RunSettings settings_of(const MeasureFlags& flags, const Session& session);

/// What is measured, and how.
void add_measure_flags(CLI::App& verb, MeasureFlags& flags);
/// How a run goes about it: reading, and what every job has. `document` is what --json prints.
void add_run_flags(CLI::App& verb, MeasureFlags& flags, const char* document);

/// What --threads counts, for plans too.
inline constexpr const char* kMeasureWorkers = "CPU workers (0: every core)";

}  // namespace vindex::apps
