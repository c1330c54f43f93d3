// Owns declaring and settling those flags: workers, threads, memory, back ends, configuration
// files, and what is measured.
#include "job_flags.hpp"

#include "command.hpp"
#include "flag_names.hpp"
#include "values.hpp"

#include "apps/console/terminal.hpp"
#include "apps/process/arithmetic_environment.hpp"
#include "apps/process/environment.hpp"
#include "core/text/text_parts.hpp"
#include "engine/devices/backends.hpp"
#include "engine/plan/worker_share.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

namespace vindex::apps {

void add_job_flags(Command& command, JobFlags& flags, const char* workers, const char* document) {
  add_threads(command, flags.threads, workers);
  add_ram_budget(command, flags.ram_budget);
  command.add(ValueKind::kShare, "--worker", flags.worker,
              "i/n: share i of n of equal cost; auto, auto/n: by the variables of Slurm or of a "
              "Kubernetes job; then `vindex merge`");
  command.add_flag("--claim", flags.claim,
                   "Take shares from the output's folder, as every process of this command that is "
                   "started with it does; then `vindex merge`",
                   ValueKind::kCaller);
  add_progress(command, flags.progress);
  command.add_flag("--restart", flags.restart, "Discard what an earlier run left");
  command.add_flag("--json", flags.json, document);
  add_config(command);
}

void add_backend_flags(Command& command, BackendFlags& flags, const char* backends,
                       const char* devices) {
  command.add_value("--backend", flags.backend, backends)
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add(ValueKind::kDevices, "--device", flags.device, devices)->capture_default_str();
}

void add_threads(Command& command, std::int32_t& threads, const char* workers, std::int32_t most) {
  command.add_value("--threads", threads, workers)
      ->check(CLI::Range(0, most))
      ->capture_default_str();
}

void add_ram_budget(Command& command, std::string& text) {
  command.add(
      ValueKind::kBudget, "--ram-budget", text,
      "Memory, for example 8GiB (default: three quarters of the smallest limit of the machine, "
      "control groups and Slurm)");
}

engine::RamBudget ram_budget_of(const Session& session, const std::string& text) {
  if (!text.empty()) {
    engine::RamBudget budget;
    budget.bytes = parse_size(text);
    budget.limit.source = "--ram-budget";
    return budget;
  }
  engine::RamBudget budget = engine::default_ram_budget(
      engine::system_memory_limits(), {.mem_per_node = environment_variable("SLURM_MEM_PER_NODE"),
                                       .mem_per_cpu = environment_variable("SLURM_MEM_PER_CPU"),
                                       .cpus_on_node = environment_variable("SLURM_CPUS_ON_NODE")});
  for (const std::string& warning : budget.warnings) {
    say(session, "warning W-SLURM-MEMORY: " + warning);
  }
  return budget;
}

void add_progress(Command& command, std::string& choice) {
  command.add(ValueKind::kCaller, "--progress", choice, "auto, plain, json or none")
      ->check(CLI::IsMember({"auto", "plain", "json", "none"}))
      ->capture_default_str();
}

void add_config(Command& command) {
  command.add_unread(
      ValueKind::kCaller, "--config",
      "File of the same flags, one `name = value` a line; the command line takes precedence");
}

namespace {

void settle_worker(engine::RunSettings& settings, const JobFlags& flags) {
  if (flags.claim && !flags.worker.empty()) {
    throw UsageError("E-CLAIM", "--claim divides the work itself: leave --worker out");
  }
  if (flags.claim && flags.restart) {
    throw UsageError("E-CLAIM",
                     "--restart would discard what other processes of --claim have done: remove "
                     "the output and its .parts folder before the first one starts");
  }
  const engine::ChosenShare chosen = engine::worker_share(flags.worker, scheduler_variables());
  settings.worker = chosen.share;
  settings.worker.claims = flags.claim;
  settings.provenance.worker_source = chosen.source;
}

}  // namespace

void settle_job(engine::RunSettings& settings, const JobFlags& flags, const Session& session) {
  const engine::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.ram_budget = budget.bytes;
  settings.provenance.ram_budget_source = budget.source_text();
  settle_worker(settings, flags);
  settings.threads = flags.threads;
  settings.restart = flags.restart;
  settings.provenance.command = session.arguments;
  settings.provenance.unset_variables = session.unset_variables;
}

void settle_backend(engine::RunSettings& settings, const BackendFlags& flags) {
  settings.backend = engine::backend_choice(flags.backend).value();
  settings.devices = parse_devices(flags.device);
  settings.blas_core = blas_core_wish();
  settings.matrix_unit = wants_matrix_unit();
}

std::unique_ptr<Backend> open_backend(const BackendFlags& flags, std::int32_t threads,
                                      const Session& session) {
  engine::RunSettings settings;
  settle_backend(settings, flags);
  settings.provenance.unset_variables = session.unset_variables;
  settings.threads = threads;
  settings.options.vectors = 1;
  std::string note;
  auto backends = engine::open_backends(settings, note);
  say(session, note);
  return std::move(backends.front());
}

namespace {

/// Draws of the sign-flip null.
std::int32_t parse_null(const std::string& text) {
  constexpr std::string_view kDraws = "signflip=";
  if (text == "none" || text == "signflip") {
    return text == "none" ? 0 : 1;
  }
  if (text.starts_with(kDraws)) {
    const auto draws = whole_number<std::int32_t>(std::string_view(text).substr(kDraws.size()));
    if (draws && *draws >= 1 && *draws <= statistics::kMaxSignFlipDraws) {
      return *draws;
    }
  }
  throw UsageError("E-NULL", fmt::format("--null `{}`: write none, signflip or signflip=R with R "
                                         "from 1 to {}",
                                         printable(text), statistics::kMaxSignFlipDraws));
}

}  // namespace

commands::SpectraSettings settings_of(const MeasureFlags& flags, const Session& session) {
  static const std::map<std::string, input::ReadPath> kPaths = {
      {"auto", input::ReadPath::kAuto},
      {"direct", input::ReadPath::kDirect},
      {"buffered", input::ReadPath::kBuffered}};
  commands::SpectraSettings settings = flags.settings;
  settings.run.reading.path = kPaths.at(flags.read);
  settings.run.selection =
      model::parse_selection(flags.layers, flags.blocks, flags.roles, flags.tensors);
  settings.in_drawn_order = flags.order == "sampled";
  if (!flags.sample.empty()) {
    settings.sample = model::parse_sample(flags.sample);
  } else if (settings.in_drawn_order) {
    settings.sample = model::SampleChoice();  // everything, by the usual seed
  }
  settings.indexing.reshape_out = flags.reshape == "out";
  settings.run.options.mode = mode_of(flags.mode);
  settings.run.options.escalate = !flags.no_escalate;
  settings.run.options.sign_flip_draws = parse_null(flags.null);
  settings.store_spectra = !flags.no_spectra;
  if (!flags.disk_budget.empty()) {
    settings.copies.disk_budget = parse_size(flags.disk_budget);
    settings.copies.folder =
        flags.disk_folder.empty() ? settings.run.output + ".copies" : flags.disk_folder;
  } else if (!flags.disk_folder.empty()) {
    throw UsageError("E-USAGE", "--disk-folder says where copies go: give --disk-budget SIZE too");
  }
  settle_backend(settings.run, flags.backend);
  settle_job(settings.run, flags.job, session);
  return settings;
}

void add_measure_flags(Command& command, MeasureFlags& flags) {
  commands::SpectraSettings& settings = flags.settings;
  add_layers(command, flags.layers);
  add_blocks(command, flags.blocks);
  add_roles(command, flags.roles);
  command.add_value("--tensors", flags.tensors, "Regular expression for the whole logical name");
  add_reshape(command, flags.reshape);
  command.add_flag("--heads", settings.indexing.heads,
                   "Also the spectra of W_Q^T W_K and W_O W_V of every head");
  command.add_flag(
      "--lora", settings.indexing.lora,
      "Also what an adapter's LoRA pairs add, alpha/r B A; MODEL may be a GGUF adapter");
  command
      .add_value("--mode", flags.mode,
                 "fast: top 64 with bounds; default; strict: float64 throughout")
      ->check(CLI::IsMember({"fast", "default", "strict"}))
      ->capture_default_str();
  command.add_flag("--no-escalate", flags.no_escalate,
                   "Keep the first route; what depends on the trailing singular values is NaN");
  add_backend_flags(command, flags.backend);
  command
      .add_value("--svd-route", settings.run.options.svd_route,
                 "auto, library, qr, proof (of the bounds of fast); cuda also two-stage, with "
                 "+gram-mma, +gram-wgmma or +gram-clusters, +band-plain or +band-tensor, and "
                 "+kernels-former")
      ->capture_default_str();
  command.add_value("--vectors", settings.run.options.vectors, "Also the top K singular vectors")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      .add_value("--null", flags.null,
                 "signflip: a second null that keeps every magnitude; signflip=R: R draws of it, "
                 "with their mean, standard deviation, z and its p (10 or more are of use); "
                 "each costs one more spectrum")
      ->capture_default_str();
  command.add_input("--imatrix", settings.imatrix,
                    "Also the spectra of matrices weighted by the activations of llama.cpp's "
                    "importance matrix FILE (GGUF or .dat)");
  command.add_flag("--no-spectra", flags.no_spectra,
                   "Leave the singular values themselves out of the file");
  add_model_config(command, settings.run.model_config);
}

void add_disk_budget(Command& command, MeasureFlags& flags) {
  command.add(ValueKind::kCaller, "--disk-budget", flags.disk_budget,
              "Keep what is fetched of a remote model on disk, up to this size, until its "
              "results are stored: a run that was killed does not fetch it again");
  command.add(ValueKind::kCaller, "--disk-folder", flags.disk_folder,
              "Where these copies lie (default: OUT.h5.copies)");
}

void add_sample_flags(Command& command, MeasureFlags& flags) {
  command.add_value(
      "--sample", flags.sample,
      "N[:SEED]: N routed experts of each layer and role, drawn at random, everything "
      "else whole; a larger N later measures what is missing");
  command
      .add_value("--order", flags.order,
                 "stored, or sampled: in the order of the draw, so that a run stopped at any time "
                 "is an unbiased estimate of every layer")
      ->check(CLI::IsMember({"stored", "sampled"}))
      ->capture_default_str();
}

void add_run_flags(Command& command, MeasureFlags& flags, const char* document) {
  add_disk_budget(command, flags);
  command
      .add_value(
          "--read", flags.read,
          "auto: straight from the storage what the file cache does not hold; direct; buffered")
      ->check(CLI::IsMember({"auto", "direct", "buffered"}))
      ->capture_default_str();
  command
      .add_value("--read-depth", flags.settings.run.reading.depth,
                 "Requests of 8 MiB in flight (0: as measured best)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command.add_flag("--verify", flags.settings.verify,
                   "First read the files whole and compare their SHA-256 with the Hub's");
  add_job_flags(command, flags.job, kMeasureWorkers, document);
}

}  // namespace vindex::apps
