// The command organ purify: noise taken out of matrices, where there is any.
#include "commands/purify/purify.hpp"

#include "organ.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/flag_names.hpp"
#include "apps/options/job_flags.hpp"
#include "apps/options/values.hpp"
#include "apps/process/session.hpp"
#include "apps/process/stop_signals.hpp"
#include "apps/reporting/console_reporter.hpp"
#include "apps/reporting/report_file.hpp"
#include "core/files/path_kind.hpp"
#include "organ/opening/open_gguf.hpp"

#include <memory>
#include <vector>

namespace vindex::apps {

namespace {

constexpr double kTenths = 10.0;  // --rate counts the discarded rank in tenths

struct PurifyFlags {
  std::string model, output, factors, method = "svd-shrink", types, include, layers, tensors;
  std::string out_type = "same", factor_type = "F32", shards, report, ram_budget;
  BackendFlags backend;
  double rho = -1.0, rate = -1.0, cap = 0.05;
  std::int32_t threads = 0;
  bool force = false, dry_run = false, replace = false, json = false;
};

purify::PurifyRule rule_of(const PurifyFlags& flags) {
  purify::PurifyRule rule;
  rule.method = purify::method_of(flags.method).value();
  if (flags.rate >= 0.0 && rule.method != purify::PurifyMethod::kLaser) {
    throw UsageError("E-PURIFY-RHO", "--rate belongs to --method laser");
  }
  if (flags.rate >= 0.0 && flags.rho >= 0.0) {
    throw UsageError("E-PURIFY-RHO", "--rho and --rate say the same: give one of them");
  }
  if (rule.method == purify::PurifyMethod::kLaser) {
    if (flags.rho >= 0.0) {
      rule.rank_share = flags.rho;
    } else if (flags.rate >= 0.0) {
      rule.rank_share = 1.0 - flags.rate / kTenths;
    }
  } else if (rule.method == purify::PurifyMethod::kFft) {
    rule.energy_share = flags.rho > 0.0 ? flags.rho : rule.energy_share;
  } else if (flags.rho >= 0.0) {
    throw UsageError("E-PURIFY-RHO", "--rho belongs to --method fft and --method laser");
  }
  return rule;
}

/// Classes of --type; embeddings, routers, norms and adapters only where --include names them.
std::set<organ::OrganClass> classes_of(const PurifyFlags& flags) {
  using enum organ::OrganClass;
  std::set<organ::OrganClass> classes = organ::parse_classes(flags.types);
  for (const organ::OrganClass shy : {kEmbed, kRouter, kNorm, kAdapter}) {
    classes.erase(shy);
  }
  if (!flags.include.empty()) {
    classes.merge(organ::parse_classes(flags.include));
  }
  return classes;
}

purify::PurifyOptions options_of(const PurifyFlags& flags, const Session& session) {
  purify::PurifyOptions options;
  options.rule = rule_of(flags);
  options.gate.energy_cap = flags.cap;
  options.gate.force = flags.force;
  options.classes = classes_of(flags);
  options.selection = model::parse_selection(flags.layers, "", "", flags.tensors);
  if (flags.out_type != "same") {
    options.out_type = purify::purify_type(flags.out_type, "--out-type", true);
  }
  options.encode = !flags.output.empty() || flags.factors.empty();
  options.keep_weights = !flags.output.empty() && !flags.dry_run;
  options.keep_factors = !flags.factors.empty() && !flags.dry_run;
  options.factor_type = purify::purify_type(flags.factor_type, "--factor-type", false);
  std::string beside = flags.output.empty() ? flags.factors : flags.output;
  while (beside.ends_with('/')) {  // a folder of organs
    beside.pop_back();
  }
  options.scratch_folder = folder_of(beside);
  options.ram_budget = ram_budget_of(session, flags.ram_budget).bytes;
  options.stop = catch_stop_signals();
  return options;
}

Ending run_purify(const PurifyFlags& flags, const Session& session) {
  if (flags.output.empty() && flags.factors.empty() && !flags.dry_run) {
    throw UsageError("E-USAGE", "--output is missing; --factors and --dry-run need none");
  }
  purify::PurifyOptions options = options_of(flags, session);
  if (!flags.factors.empty() && !purify::is_spectral(options.rule.method)) {
    throw UsageError("E-PURIFY-FACTORS",
                     "--factors: only svd-shrink, svd-gd and laser leave a low rank");
  }
  const ReportFile file(flags.report, "organ-purify/1", {flags.output, flags.factors});
  const std::uint64_t shard_bytes =
      flags.shards.empty() || flags.shards == "none" ? 0 : parse_size(flags.shards);
  const auto source = organ::open_gguf(flags.model);
  purify::PurifyTargets targets;
  targets.output = flags.dry_run ? "" : flags.output;
  targets.factors = flags.dry_run ? "" : flags.factors;
  targets.shard_bytes = shard_bytes;
  targets.replace = flags.replace;
  targets.tool = program_name();
  purify::require_free_targets(*source, targets);
  const auto backend = open_backend(flags.backend, flags.threads, session);
  ConsoleReporter reporter(session);
  options.progress = reporter.hooks().progress;
  const purify::PurifyResult result = purify::purify_model(*source, *backend, options);
  reporter.finish();
  if (result.stopped || !purify::write_results(*source, result, targets)) {
    return stopped_early("nothing was written");
  }
  file.report(
      session, flags.json, [&] { return purify::purify_json(*source, result, targets); },
      [&](std::size_t columns) {
        // A folder of organs is no model that trace opens.
        const bool wrote_model = targets.output.ends_with(".gguf") && targets.shard_bytes == 0 &&
                                 result.changed_count() > 0;
        return purify::purify_text(*source, result, targets, columns) +
               (wrote_model ? cost_line(flags.model, targets.output, columns) : "");
      });
  return {};
}

}  // namespace

void add_organ_purify(Command& organ, Session& session) {
  auto flags = std::make_shared<PurifyFlags>();
  std::vector<std::string> methods;
  for (int i = 0; i < static_cast<int>(purify::PurifyMethod::kCount); ++i) {
    methods.emplace_back(purify::method_name(static_cast<purify::PurifyMethod>(i)));
  }
  Command& command = organ.add_command(
      "purify",
      "Remove the noise of matrices, where the gate finds any\n\n"
      "Examples:\n  vindex organ purify MODEL.gguf --dry-run\n"
      "  vindex organ purify MODEL.gguf -o OUT.gguf --out-type Q8_0\n"
      "  vindex organ purify organs -o organs-pure     extracted folders\n"
      "  vindex organ purify MODEL.gguf --method laser --rho 0.1 --type ffn \\\n"
      "    --layers 20-31 --accept-findings -o OUT.gguf\n"
      "  vindex organ purify MODEL.gguf --factors LOW.safetensors   low-rank pairs\n"
      "A matrix is changed where its bulk is noise (KS < 0.10), singular values stand out of it, "
      "and at most --cap of its energy would be removed. Everything else keeps its bytes. Only "
      "perplexity shows whether a change helps.");
  command
      .add_input("model", flags->model,
                 "GGUF: a file, a split, a folder of either; an extracted folder")
      ->required();
  command.add_output("-o,--output", flags->output, "purified.gguf",
                     "GGUF file to write; a folder of organs where it ends in / or is a folder, or "
                     "where the model is one and it does not end in .gguf");
  command.add_value("--method", flags->method, "How")
      ->check(CLI::IsMember(methods))
      ->capture_default_str();
  add_number(command, "--rho", flags->rho,
             "fft: share of the energy that stays (0.95); laser: share of the rank (0.1)",
             {0.0, 1.0});
  add_number(command, "--rate", flags->rate, "laser: rho = 1 - rate / 10", {0.0, 10.0});
  command.add_value("--type", flags->types,
                    "Classes: organ, ffn, skeleton, other; several with commas (all of them)");
  command.add_value("--include", flags->include, "Also embed, router, adapter");
  add_layers(command, flags->layers, "Blocks, for example 0,1,15-20");
  command.add_value("--tensors", flags->tensors, "Regular expression for the whole tensor name");
  command
      .add_value("--out-type", flags->out_type,
                 "Type of changed tensors: same, F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0")
      ->capture_default_str();
  add_number(command, "--cap", flags->cap, "Maximum share of the energy that may be removed",
             {0.0, 1.0})
      ->capture_default_str();
  add_accept_findings(command, flags->force, "Purify what the gate refuses, too");
  command.add_output("--factors", flags->factors, "factors.safetensors",
                     "Write low-rank pairs NAME.a, NAME.b as safetensors: W' = b a");
  command.add_value("--factor-type", flags->factor_type, "Of the pairs")
      ->check(CLI::IsMember({"F32", "F16", "BF16"}))
      ->capture_default_str();
  command.add_flag("--dry-run", flags->dry_run, "Judge, and write nothing");
  command.add_value("--shards", flags->shards,
                    "Write files of at most this size: 2GiB, 500MB; none: one file");
  add_force(command, flags->replace);
  add_report(command, flags->report);
  add_backend_flags(command, flags->backend, "auto, cpu, cuda", "CUDA device");
  add_threads(command, flags->threads, "Workers (0: every core)");
  add_ram_budget(command, flags->ram_budget);
  command.add_flag("--json", flags->json, "The report as one JSON document");
  add_config(command);
  command.runs(session, [&session, flags] { return run_purify(*flags, session); });
}

}  // namespace vindex::apps
