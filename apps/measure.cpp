// The verbs plan and measure: one set of flags, so that a plan is about the run that follows it.
#include "run_talk.hpp"
#include "terminal.hpp"
#include "verbs.hpp"

#include <vindex/results/show.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/measure_run.hpp>
#include <vindex/run/progress.hpp>
#include <vindex/run/summary.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace vindex::apps {

namespace {

constexpr std::size_t kMostTableLines = 120;

/// Flags as typed; settings() turns them into what the run layer understands.
struct Flags {
  run::RunSettings settings;
  std::string layers, blocks, roles, tensors, mode = "default", backend = "auto", device = "0",
                                              ram_budget, null = "none", config, worker,
                                              progress = "auto", read = "auto", reshape = "none";
  bool no_escalate = false, no_spectra = false, json = false;
};

/// Draws of the sign-flip null.
std::int32_t parse_null(const std::string& text) {
  constexpr std::string_view kDraws = "signflip=";
  if (text == "none" || text == "signflip") {
    return text == "none" ? 0 : 1;
  }
  std::int32_t draws = 0;
  if (text.starts_with(kDraws)) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kDraws.size(), last, draws);
    if (error == std::errc() && end == last && draws >= 1 && draws <= measure::kMostSignFlipDraws) {
      return draws;
    }
  }
  throw UsageError("E-NULL", fmt::format("--null `{}`: write none, signflip or signflip=R with R "
                                         "from 1 to {}",
                                         printable(text), measure::kMostSignFlipDraws));
}

run::RunSettings settings_of(const Flags& flags, const Session& session) {
  static const std::map<std::string, shard::ReadPath> kPaths = {
      {"auto", shard::ReadPath::kAuto},
      {"direct", shard::ReadPath::kDirect},
      {"buffered", shard::ReadPath::kBuffered}};
  run::RunSettings settings = flags.settings;
  settings.reading.path = kPaths.at(flags.read);
  settings.selection =
      model::parse_selection(flags.layers, flags.blocks, flags.roles, flags.tensors);
  settings.indexing.reshape_out = flags.reshape == "out";
  settings.options.mode = mode_of(flags.mode);
  settings.options.escalate = !flags.no_escalate;
  settings.options.sign_flip_draws = parse_null(flags.null);
  settings.backend = backend_of(flags.backend);
  settings.devices = parse_devices(flags.device);
  const run::RamBudget budget = ram_budget_of(session, flags.ram_budget);
  settings.ram_budget = budget.bytes;
  settings.ram_budget_source = budget.source_text();
  settings.store_spectra = !flags.no_spectra;
  settings.worker = parse_worker(flags.worker);
  settings.blas_core = blas_core_wish();
  settings.command = session.arguments;
  settings.unset_variables = session.unset_variables;
  return settings;
}

void add_flags(CLI::App& verb, Flags& flags) {
  run::RunSettings& settings = flags.settings;
  verb.add_option("model", settings.model, "Model folder or file")->required();
  verb.add_option("--layers", flags.layers, "Layers, for example 0,1,15-20");
  verb.add_option("--blocks", flags.blocks, "Blocks, for example routed_expert,router");
  verb.add_option("--roles", flags.roles, "Roles, for example down_proj,gate_up_proj");
  verb.add_option("--tensors", flags.tensors, "Regular expression for the whole logical name");
  add_reshape(verb, flags.reshape);
  verb.add_flag("--heads", settings.indexing.heads,
                "Also the spectra of W_Q^T W_K and W_O W_V of every head");
  verb.add_flag("--lora", settings.indexing.lora,
                "Also what an adapter's LoRA pairs add, alpha/r B A; MODEL may be a GGUF adapter");
  verb.add_option("--mode", flags.mode,
                  "fast: top 64 with bounds; default; strict: float64 throughout")
      ->check(CLI::IsMember({"fast", "default", "strict"}))
      ->capture_default_str();
  verb.add_flag("--no-escalate", flags.no_escalate,
                "Keep the first route; what the tail decides becomes NaN");
  verb.add_option("--backend", flags.backend, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--device", flags.device, "all, or numbers of CUDA devices")
      ->capture_default_str();
  verb.add_option("--svd-route", settings.options.svd_route,
                  "auto, library, qr, proof (of the bounds of fast); cuda also two-stage, with\n"
                  "+gram-mma or +gram-wgmma and +band-plain, +band-tensor or +band-library")
      ->capture_default_str();
  verb.add_option("--threads", settings.threads, "CPU workers (0: every core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_ram_budget(verb, flags.ram_budget);
  verb.add_option("--vectors", settings.options.vectors, "Also the top K singular vectors")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  verb.add_option("--null", flags.null,
                  "signflip: a second null that keeps every magnitude; signflip=R: R draws of it,\n"
                  "with their mean, standard deviation and z; each costs one more spectrum")
      ->capture_default_str();
  verb.add_option("--imatrix", settings.imatrix,
                  "Also the spectra of matrices weighted by the activations of llama.cpp's\n"
                  "importance matrix FILE (GGUF or .dat)");
  verb.add_flag("--no-spectra", flags.no_spectra,
                "Leave the singular values themselves out of the file");
  verb.add_option("--model-config", settings.model_config, "config.json of a single .safetensors");
  verb.add_option(
      "--config", flags.config,
      "File of the same flags, one `name = value` a line; the command line outranks it");
}

/// Device memory that the calls which run at once take at most.
std::uint64_t device_need(const run::WorkPlan& plan, const model::ModelIndex& index,
                          const run::RunSettings& settings, const measure::Backend& backend) {
  std::uint64_t most = 0;
  for (const run::WorkUnit& unit : plan.units) {
    const model::MatrixRecord& record =
        index.matrices[static_cast<std::size_t>(unit.matrices.front().matrix)];
    if (record.product != nullptr) {
      continue;  // on the host
    }
    most =
        std::max(most, backend.device_workspace_bytes(
                           run::measured_encoding(record), record.stored_rows(),
                           record.stored_cols(), run::options_for(record.table, settings.options),
                           static_cast<std::int64_t>(unit.matrices.size())));
  }
  return most * static_cast<std::uint64_t>(backend.limits().concurrent_calls);
}

Ending show_plan(const Flags& flags, const Session& session) {
  const run::RunSettings settings = settings_of(flags, session);
  const run::SelectedModel model = run::open_selected(settings);
  std::string note;
  const auto backends = run::open_backends(settings, note);
  const run::WorkPlan plan = run::plan_run(settings, model, backends);
  const double seconds = run::expected_seconds(plan, model.index, settings, backends);
  if (flags.json) {
    print_result(nlohmann::ordered_json{{"schema", "vindex-plan/1"},
                                        {"units", plan.units.size()},
                                        {"matrices", plan.matrices},
                                        {"read_bytes", plan.read_bytes},
                                        {"least_ram_bytes", plan.least_ram_bytes},
                                        {"ram_bytes", plan.ram_bytes},
                                        {"output_bytes", plan.output_bytes},
                                        {"expected_seconds", seconds}}
                     .dump() +
                 "\n");
    return Ending();
  }
  for (const std::string& line : model.notes) {
    say(session, line);
  }
  say(session, note);
  std::string devices;
  for (const auto& backend : backends) {
    if (const std::uint64_t bytes = backend->limits().device_bytes; bytes > 0) {
      devices += fmt::format("device memory     {} of {} on {}\n",
                             size_text(device_need(plan, model.index, settings, *backend)),
                             size_text(bytes), backend->info().device);
    }
  }
  print_result(fmt::format(
      "matrices          {}\nunits of work     {}, each measured at once\nto read           {}\n"
      "memory            {} suggested, {} at least, {} allowed\n"
      "allowed by        {}\n"
      "read ahead        up to {} of that memory, for weights on their way\n{}"
      "results file      about {}\nexpected time     about {}, where the storage gives {:.2g} GB/s "
      "or more\n",
      plan.matrices, plan.units.size(), size_text(plan.read_bytes), size_text(plan.ram_bytes),
      size_text(plan.least_ram_bytes), size_text(settings.ram_budget), settings.ram_budget_source,
      size_text(plan.ring_bytes), devices, size_text(plan.output_bytes), run::clock_text(seconds),
      1e-9 * static_cast<double>(plan.read_bytes) / std::max(seconds, 1e-3)));
  return Ending();
}

Ending run_measure(const Flags& flags, const Session& session) {
  const run::RunSettings settings = settings_of(flags, session);
  RunTalk talk(session, flags.progress);
  const run::RunOutcome outcome = run::measure_model(settings, talk.hooks());
  talk.finish();
  if (outcome.stopped) {
    return ending_of(settings.output, outcome, "matrices");
  }
  if (outcome.not_finite > 0) {
    say(session,
        fmt::format("warning W-NOT-FINITE: {} of {} matrices hold weights that are not finite; "
                    "their rows say so and have no metrics",
                    outcome.not_finite, outcome.total));
  }
  if (!session.quiet && settings.worker.count == 1) {
    const std::size_t width = text_width(STDOUT_FILENO);
    const results::Shown shown = results::read_shown(settings.output, {});
    print_result(results::groups_text(shown, width, kMostTableLines));
    for (const model::ResultTable table : shown.other_tables) {
      results::ShowQuery query;
      query.table = table;
      print_result(fmt::format("/{}/\n", model::table_name(table)) +
                   results::groups_text(results::read_shown(settings.output, query), width,
                                        kMostTableLines));
    }
    print_result(run::outcome_text(outcome, width));
    print_result(
        fmt::format("results: {} (back end {})\n", printable(settings.output), shown.backend));
  }
  return ending_of(settings.output, outcome, "matrices");
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* verb =
      app.add_subcommand("plan",
                         "Tell what a measurement would read, take and last; touches no weights\n\n"
                         "Example:\n  vindex plan MODEL --blocks routed_expert");
  add_flags(*verb, *flags);
  verb->add_flag("--json", flags->json, "One JSON document");
  on_choice(*verb, session, [&session, flags] { return show_plan(*flags, session); });
}

void add_measure(CLI::App& app, Session& session) {
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(
      "measure",
      "Measure every matrix: singular values, statistics, and what noise would give\n\n"
      "Examples:\n  vindex measure MODEL -o spectra.h5\n"
      "  vindex measure MODEL -o k2.h5 --blocks routed_expert --roles down_proj "
      "--layers 1-60\nThe same command again resumes.");
  add_flags(*verb, *flags);
  verb->add_option("-o,--output", flags->settings.output, "Results file (HDF5)")->required();
  add_worker(*verb, flags->worker);
  add_progress(*verb, flags->progress);
  verb->add_option(
          "--read", flags->read,
          "auto: straight from the storage what the file cache does not hold; direct; buffered")
      ->check(CLI::IsMember({"auto", "direct", "buffered"}))
      ->capture_default_str();
  verb->add_option("--read-depth", flags->settings.reading.depth,
                   "Requests of 8 MiB in flight (0: as measured best)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  verb->add_flag("--restart", flags->settings.restart, "Discard what an earlier run left");
  on_choice(*verb, session, [&session, flags] { return run_measure(*flags, session); });
}

}  // namespace vindex::apps
