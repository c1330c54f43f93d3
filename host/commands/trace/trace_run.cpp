// Owns the steps of a trace: model, prompts, what is to be written, the pass, the dump.
#include "trace_run.hpp"

#include "commands/trace/forward/forward_pass.hpp"
#include "commands/trace/output/joined_dump.hpp"
#include "commands/trace/output/trace_folder.hpp"
#include "commands/trace/statistics/trace_end.hpp"
#include "commands/trace/statistics/trace_statistics.hpp"
#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/json/json_document.hpp"
#include "core/process/parallel.hpp"
#include "engine/devices/backends.hpp"
#include "engine/devices/forward_backends.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/version.hpp"
#include "model/routers/carried_rule.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vindex::commands {

namespace {

/// Of configurations that lie beside the weights (rotations, scales, rules of routers, quantisers):
/// they decide numbers, and no file of weights shows that they have changed. Keys of GGUF are part
/// of its header.
std::string configuration_digest(const input::ModelFiles& files) {
  Sha256 digest;
  for (const auto* const document : {&files.config, &files.quantisation}) {
    const std::string text = *document ? Json::of(**document).dump() + "\n" : "\n";
    digest.update(std::as_bytes(std::span(text)));
  }
  return hex(digest.finish());
}

/// A trace from settings to result, step by step.
class Trace {
 public:
  Trace(const TraceSettings& settings, const engine::RunHooks& hooks)
      : settings_(settings),
        hooks_(hooks),
        model_(engine::open_whole(settings.run.model, settings.run.model_config, threads(),
                                  hooks.stop)),
        transformer_(model::read_transformer(model_.files, model_.index)),
        prompts_(read_prompts(settings.ids, transformer_.vocabulary, hooks.stop, most_tokens())) {
    if (keeps_dump()) {
      plan_ = plan_dump(settings.dump, transformer_, prompts_.tokens());
      is_joined_ = settings.dump.safetensors && is_one_file(settings.run.output);
    }
    if (!settings.against.empty()) {
      open_other();
    }
  }

  TraceResult run() {
    const auto started = std::chrono::steady_clock::now();
    std::string note;
    const auto backend = engine::open_forward(settings_.run, note);
    const ForwardModel model{transformer_, model_.files, model_.index, *backend};
    ForwardOptions options;
    options.ram_budget = settings_.run.ram_budget;
    options.reading = settings_.run.reading;
    options.reserved_bytes = statistics_reserve();
    require_budgets(model, options);
    std::optional<TraceFolder> folder;
    options.scratch_folder = folder_of(settings_.statistics.empty() ? "." : settings_.statistics);
    if (keeps_dump()) {
      folder.emplace(settings_.run.output, settings_.replace, settings_.run.restart,
                     fingerprint(backend->info().name));
      require_space(*folder);
      options.folder = &*folder;
      options.scratch_folder = folder->folder();
    }
    describe(backend->info(), options.folder);
    tell(note, options.folder);
    work(model, options, options.folder);
    if (folder && !result_.stopped) {
      folder->publish(is_joined_ ? std::span<const DumpArrayPlan>(plan_)
                                 : std::span<const DumpArrayPlan>());
    }
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(result_);
  }

 private:
  std::int32_t threads() const {
    return settings_.run.threads > 0 ? settings_.run.threads : usable_cores();
  }

  /// No pass fits where their numbers alone, in a list that doubles, do not. A few are always read:
  /// what a pass of them needs can then be said.
  std::int64_t most_tokens() const {
    constexpr std::uint64_t kFew = 1U << 22U;
    return static_cast<std::int64_t>(
        std::max(kFew, settings_.run.ram_budget / sizeof(std::int32_t) / 2));
  }

  bool keeps_dump() const { return !settings_.run.output.empty(); }
  bool wants_losses() const { return settings_.losses || other_; }
  bool makes_logits() const {
    return wants_losses() || (keeps_dump() && settings_.dump.keep.contains("logits"));
  }

  void open_other() {
    other_.emplace(
        engine::open_whole(settings_.against, settings_.against_config, threads(), hooks_.stop));
    other_transformer_ = model::read_transformer(other_->files, other_->index);
    if (other_transformer_.vocabulary != transformer_.vocabulary) {
      throw ConfigurationError(
          "E-TRACE-VOCABULARY",
          fmt::format("{} has {} vocabulary entries, {} has {}: losses and divergences are of the "
                      "same entries. Compare models with one tokenizer",
                      printable(settings_.run.model), transformer_.vocabulary,
                      printable(settings_.against), other_transformer_.vocabulary));
    }
  }

  // --- statistics ----------------------------------------------------------------------------

  /// For rows of a layer and what is made of them.
  std::uint64_t statistics_budget() const { return settings_.run.ram_budget / 4; }
  std::uint64_t statistics_reserve() const {
    return settings_.statistics.empty()
               ? 0
               : statistics_budget() + statistics_bytes(transformer_, prompts_);
  }

  std::unique_ptr<TraceStatistics> open_statistics(const ForwardOptions& options) {
    if (settings_.statistics.empty()) {
      return nullptr;
    }
    std::string note;
    if (settings_.covariance) {
      backends_ = engine::open_backends(settings_.run, note);
    }
    const StatisticsSettings own = {
        .output = settings_.statistics,
        .restart = settings_.run.restart,
        .logits = makes_logits(),
        .backend = backends_.empty() ? nullptr : backends_.front().get(),
        .threads = threads(),
        .ram_budget = statistics_budget(),
        .folder = options.folder == nullptr ? std::string() : options.folder->folder(),
        .scratch = options.scratch_folder};
    engine::JobFrame frame(settings_.run);
    frame.open_reader({&model_.files});
    results::RunDescription& run = frame.describe(
        results::FileSchema::kTrace, settings_.run.model,
        fmt::format("trace of {}", printable(settings_.run.model)), backends_, threads());
    run.backend = result_.backend;
    run.fingerprint.emplace_back("back end", result_.backend);
    frame.add_inputs(model_.files);
    run.fingerprint.push_back(configuration_line());
    frame.complete({{"ids", settings_.ids}, {"covariance", settings_.covariance}},
                   engine::shape_json(model_.index.shape));
    describe_statistics(transformer_, prompts_, own, run);
    return std::make_unique<TraceStatistics>(own, transformer_, model_.files, prompts_,
                                             frame.take_description(), hooks_.stop);
  }

  std::pair<std::string, std::string> configuration_line() const {
    return {"configuration", "sha256 " + configuration_digest(model_.files)};
  }

  TraceFingerprint fingerprint(const std::string& backend) const {
    TraceFingerprint lines = {{"numeric version", std::to_string(engine::kNumericVersion)}};
    for (auto& line : engine::file_lines(model_.files)) {
      lines.push_back(std::move(line));
    }
    lines.push_back(configuration_line());
    std::set<std::int32_t> layers;
    std::set<std::string> roles;
    for (const DumpArrayPlan& array : plan_) {
      roles.insert(array.role);
      if (array.layer >= 0) {
        layers.insert(array.layer);
      }
    }
    lines.emplace_back("ids", "sha256 " + prompts_.digest());
    lines.emplace_back("keep", fmt::format("{}", fmt::join(roles, ",")));
    lines.emplace_back("layers", model::layers_text(layers));
    lines.emplace_back("dtype", decode::element_type_row(settings_.dump.type).name);
    lines.emplace_back("format", settings_.dump.safetensors ? "safetensors" : "npy");
    lines.emplace_back("back end", backend);
    return lines;
  }

  /// States of a last layer wait in a file where they take more of the budget than this.
  std::uint64_t most_waiting() const { return settings_.run.ram_budget / 8; }

  /// Refuses before anything is read or written, whatever comes last.
  void require_budgets(const ForwardModel& model, ForwardOptions options) const {
    require_forward_budget(model, prompts_, options);
    std::vector<const ForwardModel*> models = {&model};
    const auto wait = [&](const model::Transformer& of) {
      options.reserved_bytes +=
          std::min(most_waiting(), static_cast<std::uint64_t>(prompts_.tokens()) *
                                       static_cast<std::uint64_t>(of.hidden) * sizeof(float));
    };
    wait(transformer_);
    if (other_) {
      const ForwardModel other{other_transformer_, other_->files, other_->index, model.backend};
      require_forward_budget(other, prompts_, options);
      wait(other_transformer_);
      models.push_back(&other);
      require_end_budget(models, prompts_, options);
    } else if (makes_logits()) {
      require_end_budget(models, prompts_, options);
    }
  }

  /// `states`, in a file where they take much memory while something else is computed.
  std::unique_ptr<TokenRows> waiting(std::unique_ptr<TokenRows> states,
                                     const ForwardOptions& options) const {
    if (states->memory_bytes() <= most_waiting()) {
      return states;
    }
    auto file = make_rows_in_file(states->tokens(), states->width(), options.scratch_folder);
    copy_rows(*states, *file);
    return file;
  }

  /// Arrays that are still to be written, two states of the residual stream, and the one file.
  void require_space(const TraceFolder& folder) const {
    std::uint64_t bytes = 2 * static_cast<std::uint64_t>(prompts_.tokens()) *
                          static_cast<std::uint64_t>(transformer_.hidden) * sizeof(float);
    std::uint64_t joined = 0;
    for (const DumpArrayPlan& array : plan_) {
      joined += is_joined_ ? array.bytes : 0;
      if (array.layer < 0 || array.layer >= folder.layers_done()) {
        bytes += array.bytes;
      }
    }
    require_free_space(folder.folder() + "/dump", joined + (folder.is_complete() ? 0 : bytes));
  }

  void describe(const BackendInfo& backend, const TraceFolder* folder) {
    result_.model = settings_.run.model;
    result_.family = transformer_.family;
    result_.output = folder == nullptr ? std::string() : folder->output();
    result_.vocabulary = transformer_.vocabulary;
    result_.against = settings_.against;
    result_.statistics = settings_.statistics;
    result_.prompts = std::ssize(prompts_.lengths);
    result_.tokens = prompts_.tokens();
    result_.longest = prompts_.longest();
    result_.layers = static_cast<std::int32_t>(transformer_.layers.size());
    result_.layers_before = folder == nullptr ? 0 : folder->layers_done();
    result_.arrays = std::ssize(plan_);
    for (const DumpArrayPlan& array : plan_) {
      result_.dump_bytes += array.bytes;
    }
    result_.backend = backend.name;
    result_.device = backend.device;
  }

  void say(const std::string& line) const {
    if (hooks_.message) {
      hooks_.message(line);
    }
  }

  void tell_warnings(const engine::OpenModel& model, const model::Transformer& transformer,
                     const std::string& side) const {
    std::vector<std::string> warnings;
    engine::add_warnings(model.files, model.index, side, warnings);
    for (const Warning& warning : transformer.warnings) {
      warnings.push_back(fmt::format("warning {}: {}{}", warning.id, side, warning.text));
    }
    for (const std::string& warning : warnings) {
      say(warning);
    }
  }

  void tell(const std::string& note, const TraceFolder* folder) const {
    say(note);
    tell_warnings(model_, transformer_, "");
    if (other_) {
      tell_warnings(*other_, other_transformer_, printable(settings_.against) + ": ");
    }
    if (transformer_.context > 0 && result_.longest > transformer_.context) {
      say(
          fmt::format("warning W-CONTEXT: the longest prompt has {} tokens, the model claims a "
                      "context of {}",
                      result_.longest, transformer_.context));
    }
    if (settings_.dump.keep.contains("mlp") && (keeps_dump() || !settings_.statistics.empty())) {
      tell_missing_neurons();
    }
    if (folder != nullptr && folder->is_complete()) {
      say("resuming: everything is computed already");
    } else if (folder != nullptr && folder->layers_done() > 0) {
      say(fmt::format("resuming: {} of {} layers are done already", folder->layers_done(),
                      result_.layers));
    }
  }

  /// Routed experts see only their own tokens: there is no matrix of tokens and neurons.
  void tell_missing_neurons() const {
    std::int64_t shared = 0, routed = 0;
    for (const model::TransformerLayer& layer : transformer_.layers) {
      if (layer.mixture) {
        ++(layer.mixture->shared ? shared : routed);
      }
    }
    if (shared > 0) {
      say(fmt::format("mlp of {} layers is that of their shared expert alone", shared));
    }
    if (routed > 0) {
      say(fmt::format("{} layers have no mlp: routed experts see only their own tokens", routed));
    }
  }

  /// That of the model's routers, where the dump has their logits; empty.
  std::string carried_rule() const {
    const bool has_logits = std::any_of(plan_.begin(), plan_.end(), [](const DumpArrayPlan& array) {
      return array.role == model::kRouterLogitsRole;
    });
    return has_logits ? model::carried_rule_text(model_.files) : std::string();
  }

  /// A dump that is complete but for its name is not written again; figures are.
  void work(const ForwardModel& model, ForwardOptions options, TraceFolder* folder) {
    std::optional<DumpWriter> writer;
    if (folder != nullptr && !folder->is_complete()) {
      writer.emplace(plan_, prompts_, folder->dump_folder(), folder->output(), carried_rule());
    }
    const std::unique_ptr<TraceStatistics> statistics = open_statistics(options);
    std::vector<TraceObserver*> observers;
    if (writer) {
      observers.push_back(&*writer);
    }
    if (statistics != nullptr) {
      observers.push_back(statistics.get());
    }
    if (observers.empty() && !wants_losses()) {
      return;
    }
    FiniteWatch watch(prompts_.tokens(), makes_logits());
    observers.push_back(&watch);
    ForwardOutcome pass = run_forward(model, prompts_, options, observers, hooks_);
    count(pass);
    result_.not_finite = watch.found();
    if (result_.stopped) {
      result_.layers_before = folder == nullptr ? 0 : folder->layers_done();
      return;
    }
    const auto states = waiting(std::move(pass.states), options);
    options.reserved_bytes += states->memory_bytes();
    options.folder = nullptr;
    finish(model, *states, options, observers);
    result_.not_finite = watch.found();
    if (result_.stopped) {
      return;
    }
    if (writer) {
      writer->finish();
    }
    if (statistics != nullptr) {
      statistics->finish(result_.findings ? &*result_.findings : nullptr);
    }
    if (!wants_losses()) {
      result_.findings.reset();
    }
  }

  void count(const ForwardOutcome& pass) {
    result_.unrouted += pass.unrouted;
    result_.rows_in_file = result_.rows_in_file || pass.rows_in_file;
    result_.keeping_seconds += pass.keeping_seconds;
    add_reading(result_.reading, pass.reading);
    result_.reading_engine = pass.reading_engine;
    result_.stopped = pass.stopped;
  }

  /// What comes behind the last layer; before it the layers of the other model.
  void finish(const ForwardModel& model, const TokenRows& states, ForwardOptions options,
              std::span<TraceObserver* const> observers) {
    const TracedModel own{model, states};
    TraceEndOutcome end;
    if (other_) {
      const ForwardModel other{other_transformer_, other_->files, other_->index, model.backend};
      say(fmt::format("{}: the same prompts", printable(settings_.against)));
      FiniteWatch watch(prompts_.tokens(), false);
      std::array<TraceObserver*, 1> watching = {&watch};
      ForwardOutcome pass = run_forward(other, prompts_, options, watching, hooks_);
      count(pass);
      result_.not_finite_against = watch.found();
      if (result_.stopped) {
        return;
      }
      const auto judged_states = waiting(std::move(pass.states), options);
      options.reserved_bytes += judged_states->memory_bytes();
      const TracedModel judged{other, *judged_states};
      end = finish_trace(own, &judged, true, prompts_, options, threads(), observers, hooks_);
    } else {
      end = finish_trace(own, nullptr, wants_losses(), prompts_, options, threads(), observers,
                         hooks_);
    }
    add_reading(result_.reading, end.reading);
    result_.stopped = end.stopped;
    result_.findings = std::move(end.findings);
    // Logits of the other model are seen where they are compared.
    if (other_ && result_.findings && result_.findings->left_out == 0) {
      result_.not_finite_against.logit_tokens = result_.findings->comparison.left_out();
    }
  }

  const TraceSettings& settings_;
  const engine::RunHooks& hooks_;
  engine::OpenModel model_;
  model::Transformer transformer_;
  TracePrompts prompts_;
  std::vector<DumpArrayPlan> plan_;  ///< empty without a dump
  bool is_joined_ = false;           ///< the dump is one file
  std::optional<engine::OpenModel> other_;
  model::Transformer other_transformer_;
  std::vector<std::unique_ptr<Backend>> backends_;  ///< of covariances
  TraceResult result_;
};

}  // namespace

TraceResult trace(const TraceSettings& settings, const engine::RunHooks& hooks) {
  if (settings.run.output.empty() && settings.statistics.empty() && !settings.losses &&
      settings.against.empty()) {
    throw UsageError("E-USAGE",
                     "nothing is asked for: -o, --loss, --against or --statistics say what");
  }
  if (!settings.run.output.empty()) {
    require_free_dump(settings.run.output, settings.replace);
  }
  return Trace(settings, hooks).run();
}

}  // namespace vindex::commands
