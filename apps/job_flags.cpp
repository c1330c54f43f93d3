// Owns declaring and settling those flags: workers, threads, memory, back ends, configuration
// files.
#include "job_flags.hpp"

#include "arithmetic_environment.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <utility>

namespace vindex::apps {

void add_job_flags(CLI::App& verb, JobFlags& flags, const char* workers, const char* document) {
  add_threads(verb, flags.threads, workers);
  add_ram_budget(verb, flags.ram_budget);
  verb.add_option("--worker", flags.worker, "i/n: take every n-th row from i; then `vindex merge`");
  add_progress(verb, flags.progress);
  verb.add_flag("--restart", flags.restart, "Discard what an earlier run left");
  verb.add_flag("--json", flags.json, document);
  add_config(verb);
}

void add_backend_flags(CLI::App& verb, BackendFlags& flags, const char* backends,
                       const char* devices) {
  verb.add_option("--backend", flags.backend, backends)
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--device", flags.device, devices)->capture_default_str();
}

void add_threads(CLI::App& verb, std::int32_t& threads, const char* workers) {
  verb.add_option("--threads", threads, workers)->check(CLI::Range(0, 1024))->capture_default_str();
}

void add_ram_budget(CLI::App& verb, std::string& text) {
  verb.add_option(
      "--ram-budget", text,
      "Memory, for example 8GiB (default: three quarters of the smallest limit of the machine, "
      "control groups and Slurm)");
}

void add_progress(CLI::App& verb, std::string& choice) {
  verb.add_option("--progress", choice, "auto, plain, json or none")
      ->check(CLI::IsMember({"auto", "plain", "json", "none"}))
      ->capture_default_str();
}

void add_config(CLI::App& verb) {
  verb.add_option_function<std::string>(
      "--config", [](const std::string& /*path*/) {},
      "File of the same flags, one `name = value` a line; the command line takes precedence");
}

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

void settle_job(engine::RunSettings& settings, const JobFlags& flags, const Session& session) {
  const engine::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.ram_budget = budget.bytes;
  settings.ram_budget_source = budget.source_text();
  settings.worker = parse_worker(flags.worker);
  settings.threads = flags.threads;
  settings.restart = flags.restart;
  settings.command = session.arguments;
  settings.unset_variables = session.unset_variables;
}

void settle_backend(engine::RunSettings& settings, const BackendFlags& flags) {
  settings.backend = backend_of(flags.backend);
  settings.devices = parse_devices(flags.device);
  settings.blas_core = blas_core_wish();
}

std::unique_ptr<measure::Backend> open_backend(const BackendFlags& flags, std::int32_t threads,
                                               const Session& session) {
  engine::RunSettings settings;
  settle_backend(settings, flags);
  settings.unset_variables = session.unset_variables;
  settings.threads = threads;
  settings.options.vectors = 1;
  std::string note;
  auto backends = engine::open_backends(settings, note);
  say(session, note);
  return std::move(backends.front());
}

}  // namespace vindex::apps
