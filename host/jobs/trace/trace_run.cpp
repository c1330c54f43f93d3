// Owns the steps of a trace: model, prompts, what is to be written, the pass, the dump.
#include "trace_run.hpp"

#include "forward_pass.hpp"
#include "trace_end.hpp"
#include "trace_folder.hpp"

#include "core/atomic_file.hpp"
#include "core/parallel.hpp"
#include "engine/description_parts.hpp"
#include "engine/forward_backends.hpp"
#include "engine/version.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <set>
#include <utility>

namespace vindex::jobs {

namespace {

/// A trace from settings to result, step by step.
class Trace {
 public:
  Trace(const TraceSettings& settings, const engine::RunHooks& hooks)
      : settings_(settings),
        hooks_(hooks),
        model_(engine::open_whole(settings.run.model, settings.run.model_config, threads(),
                                  hooks.stop)),
        transformer_(model::read_transformer(model_.files, model_.index)),
        prompts_(read_prompts(settings.ids, transformer_.vocabulary, hooks.stop)),
        plan_(plan_dump(settings.dump, transformer_, prompts_.tokens())) {}

  TraceResult run() {
    const auto started = std::chrono::steady_clock::now();
    std::string note;
    const auto backend = engine::open_forward(settings_.run, note);
    const ForwardModel model{transformer_, model_.files, model_.index, *backend};
    ForwardOptions options;
    options.ram_budget = settings_.run.ram_budget;
    options.reading = settings_.run.reading;
    require_forward_budget(model, prompts_, options);
    TraceFolder folder(settings_.run.output, settings_.replace, settings_.run.restart,
                       fingerprint(backend->info().name));
    require_space(folder);
    options.folder = &folder;
    options.scratch_folder = folder.folder();
    describe(backend->info(), folder);
    tell(note, folder);
    if (!folder.is_complete()) {
      work(model, options, folder);
    }
    if (!result_.stopped) {
      folder.publish();
    }
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(result_);
  }

 private:
  std::int32_t threads() const {
    return settings_.run.threads > 0 ? settings_.run.threads : usable_cores();
  }

  TraceFingerprint fingerprint(const std::string& backend) const {
    results::RunDescription run;
    run.fingerprint = {{"numeric version", std::to_string(engine::kNumericVersion)}};
    (void)engine::add_inputs(model_.files, "", run);
    std::set<std::int32_t> layers;
    std::set<std::string> roles;
    for (const DumpArrayPlan& array : plan_) {
      roles.insert(array.role);
      if (array.layer >= 0) {
        layers.insert(array.layer);
      }
    }
    run.fingerprint.emplace_back("ids", "sha256 " + prompts_.digest());
    run.fingerprint.emplace_back("keep", fmt::format("{}", fmt::join(roles, ",")));
    run.fingerprint.emplace_back("layers", model::layers_text(layers));
    run.fingerprint.emplace_back("dtype", decode::element_type_row(settings_.dump.type).name);
    run.fingerprint.emplace_back("format", settings_.dump.safetensors ? "safetensors" : "npy");
    run.fingerprint.emplace_back("back end", backend);
    return run.fingerprint;
  }

  /// Arrays that are still to be written, and two states of the residual stream.
  void require_space(const TraceFolder& folder) const {
    std::uint64_t bytes = 2 * static_cast<std::uint64_t>(prompts_.tokens()) *
                          static_cast<std::uint64_t>(transformer_.hidden) * sizeof(float);
    for (const DumpArrayPlan& array : plan_) {
      if (array.layer < 0 || array.layer >= folder.layers_done()) {
        bytes += array.bytes;
      }
    }
    require_free_space(folder.folder() + "/dump", folder.is_complete() ? 0 : bytes);
  }

  void describe(const measure::BackendInfo& backend, const TraceFolder& folder) {
    result_.model = settings_.run.model;
    result_.family = transformer_.family;
    result_.output = folder.output();
    result_.prompts = std::ssize(prompts_.lengths);
    result_.tokens = prompts_.tokens();
    result_.longest = prompts_.longest();
    result_.layers = static_cast<std::int32_t>(transformer_.layers.size());
    result_.layers_before = folder.layers_done();
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

  void tell(const std::string& note, const TraceFolder& folder) const {
    say(note);
    std::vector<std::string> warnings;
    engine::add_warnings(model_.files, model_.index, "", warnings);
    for (const std::string& warning : warnings) {
      say(warning);
    }
    if (transformer_.context > 0 && result_.longest > transformer_.context) {
      say(
          fmt::format("warning W-CONTEXT: the longest prompt has {} tokens, the model claims a "
                      "context of {}",
                      result_.longest, transformer_.context));
    }
    if (settings_.dump.keep.contains("mlp")) {
      tell_missing_neurons();
    }
    if (folder.is_complete()) {
      say("resuming: everything is computed already");
    } else if (folder.layers_done() > 0) {
      say(fmt::format("resuming: {} of {} layers are done already", folder.layers_done(),
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

  void work(const ForwardModel& model, ForwardOptions options, TraceFolder& folder) {
    DumpWriter writer(plan_, prompts_, folder.dump_folder(), folder.output());
    const std::array<TraceObserver*, 1> observers = {&writer};
    ForwardOutcome pass = run_forward(model, prompts_, options, observers, hooks_);
    result_.unrouted = pass.unrouted;
    result_.rows_in_file = pass.rows_in_file;
    result_.keeping_seconds = pass.keeping_seconds;
    result_.reading = pass.reading;
    result_.reading_engine = pass.reading_engine;
    result_.stopped = pass.stopped;
    if (result_.stopped) {
      result_.layers_before = folder.layers_done();
      return;
    }
    options.held += pass.held;
    const TraceEndOutcome end =
        finish_trace(model, prompts_, *pass.states, options, threads(), observers, hooks_);
    result_.stopped = end.stopped;
    if (!result_.stopped) {
      writer.finish();
    }
  }

  const TraceSettings& settings_;
  const engine::RunHooks& hooks_;
  engine::OpenModel model_;
  model::Transformer transformer_;
  TracePrompts prompts_;
  std::vector<DumpArrayPlan> plan_;
  TraceResult result_;
};

}  // namespace

TraceResult trace(const TraceSettings& settings, const engine::RunHooks& hooks) {
  require_free_dump(settings.run.output, settings.replace);
  return Trace(settings, hooks).run();
}

}  // namespace vindex::jobs
