#include "job_flags.hpp"

#include "run_talk.hpp"

namespace vindex::apps {

void add_job_flags(CLI::App& verb, run::RunSettings& settings, JobFlags& flags) {
  verb.add_option("--backend", flags.backend, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--device", flags.device, "all, or numbers of CUDA devices")
      ->capture_default_str();
  verb.add_option("--threads", settings.threads, "Workers on the host (0: every core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_ram_budget(verb, flags.ram_budget);
  add_worker(verb, flags.worker);
  add_progress(verb, flags.progress);
  verb.add_flag("--restart", settings.restart, "Discard what an earlier run left");
  verb.add_flag("--json", flags.json, "The table as one JSON document, numbers unrounded");
  verb.add_option("--config", flags.config,
                  "File of the same flags, one `name = value` a line; the command line outranks "
                  "it");
}

run::RunSettings job_settings(run::RunSettings settings, const JobFlags& flags,
                              const Session& session) {
  settings.backend = backend_of(flags.backend);
  settings.devices = parse_devices(flags.device);
  const run::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.ram_budget = budget.bytes;
  settings.ram_budget_source = budget.source_text();
  settings.worker = parse_worker(flags.worker);
  settings.blas_core = blas_core_wish();
  settings.command = session.arguments;
  settings.unset_variables = session.unset_variables;
  return settings;
}

}  // namespace vindex::apps
