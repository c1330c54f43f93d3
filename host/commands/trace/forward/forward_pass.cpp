// Owns the walk over stages: which rows each takes, and what becomes of them.
#include "forward_pass.hpp"

#include "layer_blocks.hpp"
#include "stage_inputs.hpp"
#include "trace_plan.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "decode/decode_matrix.hpp"
#include "engine/run/matrix_pass.hpp"
#include "statistics/routing/routing_statistics.hpp"
#include "statistics/routing/token_router.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vindex::commands {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Rows of the embedding that lie this close are read as one, of at most so many bytes.
constexpr std::int64_t kNearRows = 8;
constexpr std::int64_t kRunBytes = 1 << 20;

/// Tokens that an expert works on, ascending, and the weights of its output.
struct ExpertTokens {
  std::vector<std::int64_t> rows;
  std::vector<float> weights;
};

class ForwardRun {
 public:
  ForwardRun(const ForwardModel& model, const TracePrompts& prompts, const ForwardOptions& options,
             std::span<TraceObserver* const> observers, const engine::RunHooks& hooks)
      : model_(model),
        prompts_(prompts),
        options_(options),
        observers_(observers),
        hooks_(hooks),
        first_layer_(options.folder == nullptr ? 0 : options.folder->layers_done()),
        stages_(plan_stages(model.transformer, model.index, prompts, first_layer_)),
        works_(stage_works(stages_, model.index, model.backend)),
        memory_(plan_memory(model.transformer, prompts, works_, model.backend, model.index,
                            options.ram_budget, options.reserved_bytes)) {
    require_decodable();
  }

  ForwardOutcome run() {
    outcome_.layers = static_cast<std::int32_t>(model_.transformer.layers.size());
    outcome_.layers_before = first_layer_;
    outcome_.rows_in_file = memory_.rows_in_file;
    open_rows();
    for (TraceObserver* const observer : observers_) {
      observer->begin(first_layer_);
    }
    if (!stages_.empty()) {
      work();
    }
    if (!outcome_.stopped) {
      outcome_.states = std::move(source_);
    }
    return std::move(outcome_);
  }

 private:
  const model::Transformer& transformer() const { return model_.transformer; }
  const model::TransformerLayer& layer() const { return transformer().layers[stage_->layer]; }
  std::int64_t hidden() const { return transformer().hidden; }

  void require_decodable() const {
    for (const TraceStage& stage : stages_) {
      for (const std::int64_t number : stage.matrices) {
        const model::MatrixRecord& matrix = model_.index.matrices[as_size(number)];
        if (const std::string reason = model::undecodable_text(matrix); !reason.empty()) {
          throw FormatError("E-UNSUPPORTED", model::matrix_name(matrix), reason);
        }
      }
    }
  }

  std::unique_ptr<TokenRows> make_rows() const {
    return memory_.rows_in_file
               ? make_rows_in_file(prompts_.tokens(), hidden(), options_.scratch_folder)
               : make_rows_in_memory(prompts_.tokens(), hidden());
  }

  /// The stream to begin with, of an earlier run where there is one.
  void open_rows() {
    if (first_layer_ > 0) {
      source_ =
          open_rows_file(prompts_.tokens(), hidden(), options_.folder->stream_path(first_layer_));
      if (!memory_.rows_in_file) {
        auto rows = make_rows_in_memory(prompts_.tokens(), hidden());
        copy_rows(*source_, *rows);
        source_ = std::move(rows);
      }
    } else {
      source_ = make_rows();
    }
  }

  /// One pass over all stages, so that weights are read ahead of their turn; or, where the tokens
  /// are so few that experts will have none, one to every router and from there to the next: what
  /// nobody was sent to is not read.
  void work() {
    for (const engine::RowWork& work : works_) {
      progress_.total.matrices += 1;
      progress_.total.bytes += work.read_bytes;
      progress_.total.cost += work.cost;
    }
    const bool by_router = leaves_experts_out();
    for (std::size_t begin = 0; begin < stages_.size() && !outcome_.stopped;) {
      std::size_t end = begin + 1;
      while (end < stages_.size() && !(by_router && stages_[end - 1].kind == StageKind::kRouter)) {
        ++end;
      }
      run_stages(begin, end);
      begin = end;
    }
  }

  /// Whether one expert in a hundred is expected to be without a token.
  bool leaves_experts_out() const {
    constexpr double kWorthIt = 0.01;
    return std::any_of(transformer().layers.begin(), transformer().layers.end(),
                       [&](const model::TransformerLayer& layer) {
                         if (!layer.mixture) {
                           return false;
                         }
                         const double share = static_cast<double>(layer.mixture->rule.top_k) /
                                              static_cast<double>(layer.mixture->experts.size());
                         return std::pow(1.0 - std::min(share, 1.0),
                                         static_cast<double>(prompts_.tokens())) > kWorthIt;
                       });
  }

  /// Stages [begin, end), but for experts that are known to have no tokens.
  void run_stages(std::size_t begin, std::size_t end) {
    pass_.clear();
    std::vector<engine::RowWork> works;
    for (std::size_t i = begin; i < end; ++i) {
      const bool is_idle = stages_[i].kind == StageKind::kExpert && begin > 0 &&
                           stages_[i].layer == stages_[begin].layer &&
                           stages_[begin - 1].kind == StageKind::kRouter &&
                           chosen_[stages_[i].expert].rows.empty();
      if (is_idle) {
        progress_.total.matrices -= 1;
        progress_.total.bytes -= works_[i].read_bytes;
        progress_.total.cost -= works_[i].cost;
      } else {
        works.push_back(works_[i]);
        works.back().row = std::ssize(pass_);
        pass_.push_back(i);
      }
    }
    const engine::PassOptions options = {
        .threads = 1,
        .ram_budget = options_.ram_budget,
        .reserved_bytes = memory_.reserved_bytes,
        .in_order = true,
        .reading = options_.reading,
        .staging = [&](std::size_t bytes) { return model_.backend.make_staging(bytes); }};
    engine::RunHooks hooks = hooks_;
    if (hooks_.progress) {
      hooks.progress = [&](const engine::ProgressSnapshot& seen) { tell(seen); };
    }
    const engine::ModelViews views = {{&model_.files, &model_.index}};
    const engine::RunOutcome done = engine::pass_over(
        views, works, options,
        [&](std::size_t i, engine::UnitStream& unit) { work_on(stages_[pass_[i]], unit); }, hooks);
    outcome_.stopped = done.stopped;
    outcome_.reading_engine = done.reading_engine;
    add_reading(outcome_.reading, done.reading);
    for (const engine::RowWork& work : works) {
      progress_.before.matrices += 1;
      progress_.before.bytes += work.read_bytes;
      progress_.before.cost += work.cost;
    }
  }

  /// `seen` of one pass as a place in all of them.
  void tell(engine::ProgressSnapshot seen) const {
    const auto at = static_cast<std::size_t>(seen.done.matrices);
    const engine::ProgressSnapshot::Amount& before = progress_.before;
    seen.noun = "stages";
    seen.total = progress_.total;
    seen.done.matrices += before.matrices;
    seen.done.bytes += before.bytes;
    seen.done.cost += before.cost;
    if (at < pass_.size()) {
      const TraceStage& stage = stages_[pass_[at]];
      seen.current = stage.name;
      seen.done.cost += share_.load() * stage.cost;
    }
    seen.before = {};
    seen.started_seconds = 0.0;
    seen.elapsed_seconds = seconds_since(started_);
    hooks_.progress(seen);
  }

  void work_on(const TraceStage& stage, engine::UnitStream& unit) {
    stage_ = &stage;
    share_ = 0.0;
    StageInputs inputs(unit, stage.matrices, model_.files, 0, &of_mixture_);
    const LayerTools tools{transformer(), inputs, model_.backend, unit.stop_token()};
    switch (stage.kind) {
      case StageKind::kEmbedding:
        embed(tools);
        break;
      case StageKind::kAttention:
        attend_all(tools);
        break;
      case StageKind::kDense:
        run_dense(tools);
        break;
      case StageKind::kRouter:
        run_router(tools);
        break;
      case StageKind::kExpert:
        run_expert(tools);
        break;
      case StageKind::kSum:
        add_experts(tools);
        break;
    }
    inputs.finish();
    if (stage.kind == StageKind::kRouter) {
      of_mixture_ = inputs.take_vectors();
    }
    if (stage.ends_layer) {
      end_layer(tools);
    }
    if (options_.folder != nullptr) {
      options_.folder->refresh();
    }
  }

  /// Calls take(first, count) for all tokens in blocks.
  template <typename Take>
  void for_blocks(Take take) {
    for (std::int64_t first = 0; first < prompts_.tokens(); first += kTraceBlock) {
      take(first, std::min(kTraceBlock, prompts_.tokens() - first));
      share_ = static_cast<double>(first) / static_cast<double>(prompts_.tokens());
    }
  }

  // --- embedding -----------------------------------------------------------------------------

  void embed(const LayerTools& tools) {
    MatrixInput& table = tools.weights.matrix(transformer().embedding);
    std::vector<std::int64_t> order(as_size(prompts_.tokens()));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return prompts_.ids[as_size(a)] < prompts_.ids[as_size(b)];
    });
    const auto id_of = [&](std::size_t at) { return prompts_.ids[as_size(order[at])]; };
    const std::int64_t most_rows =
        std::max<std::int64_t>(1, kRunBytes / std::max<std::int64_t>(1, 8 * hidden()));
    std::vector<float> values;
    for (std::size_t begin = 0; begin < order.size();) {
      throw_if_stopped(tools.stop);
      const std::int64_t first = id_of(begin);
      std::size_t end = begin + 1;
      while (end < order.size() && id_of(end) - id_of(end - 1) <= kNearRows &&
             id_of(end) - first < most_rows) {
        ++end;
      }
      const std::int64_t rows = id_of(end - 1) - first + 1;
      values.resize(as_size(rows * hidden()));
      decode::decode_matrix(table.row_slab(first, rows), values.data(), hidden());
      scale(values);
      for (; begin < end; ++begin) {
        source_->write(order[begin], 1, values.data() + (id_of(begin) - first) * hidden());
      }
      share_ = static_cast<double>(begin) / static_cast<double>(order.size());
    }
  }

  void scale(std::vector<float>& values) const {
    if (transformer().embedding_factor != 1.0) {
      for (float& value : values) {
        value = static_cast<float>(static_cast<double>(value) * transformer().embedding_factor);
      }
    }
  }

  // --- attention -----------------------------------------------------------------------------

  void attend_all(const LayerTools& tools) {
    begin_layer();
    const auto blocks = prompt_blocks(prompts_.lengths, kTraceBlock);
    for (const PromptBlock& block : blocks) {
      throw_if_stopped(tools.stop);
      x_.resize(as_size(block.tokens * hidden()));
      source_->read(block.first, block.tokens, x_.data());
      attend(tools, layer(), std::span(prompts_.lengths).subspan(block.first_prompt, block.prompts),
             x_.data());
      target().write(block.first, block.tokens, x_.data());
      share_ = static_cast<double>(block.first) / static_cast<double>(prompts_.tokens());
    }
    give_back(x_);
  }

  /// In memory a layer changes the stream in its place. In files it grows beside the one before,
  /// which is what a rerun would begin with.
  void begin_layer() {
    if (!memory_.rows_in_file) {
      return;
    }
    if (options_.folder == nullptr) {
      target_ = make_rows();
      return;
    }
    const std::string path =
        options_.folder->stream_path(static_cast<std::int32_t>(stage_->layer) + 1);
    ::unlink(path.c_str());
    target_ = open_rows_file(prompts_.tokens(), hidden(), path);
  }

  /// The stream behind this layer's attention.
  TokenRows& target() { return target_ != nullptr ? *target_ : *source_; }

  // --- feed-forward --------------------------------------------------------------------------

  void run_dense(const LayerTools& tools) {
    const model::FeedForward& ffn = *layer().dense;
    for_blocks([&](std::int64_t first, std::int64_t count) {
      throw_if_stopped(tools.stop);
      read_normalised(tools, first, count);
      run_feed_forward(tools, ffn, first, count);
      add_ffn(tools, layer(), count, given_.data(), x_.data());
      target().write(first, count, x_.data());
      show_hidden(first, count);
    });
    give_back_all();
  }

  void read_normalised(const LayerTools& tools, std::int64_t first, std::int64_t count) {
    x_.resize(as_size(count * hidden()));
    normalised_.resize(x_.size());
    target().read(first, count, x_.data());
    normalise_for_ffn(tools, layer(), count, x_.data(), normalised_.data());
  }

  /// given_ of normalised_, of the feed-forward that every token goes through.
  void run_feed_forward(const LayerTools& tools, const model::FeedForward& ffn, std::int64_t first,
                        std::int64_t count) {
    given_.resize(as_size(count * hidden()));
    neurons_.resize(as_size(count * ffn.neurons));
    feed_forward(tools, ffn, count, normalised_.data(), neurons_.data(), given_.data());
    const std::int32_t number = layer().number;
    for (TraceObserver* const observer : observers_) {
      if (observer->wants_mlp(number)) {
        observer->mlp({number, first, count, ffn.neurons, neurons_.data()});
      }
    }
  }

  void show_hidden(std::int64_t first, std::int64_t count) {
    const std::int32_t number = layer().number;
    for (TraceObserver* const observer : observers_) {
      if (observer->wants_hidden(number)) {
        observer->hidden({number, first, count, hidden(), x_.data()});
      }
    }
  }

  // --- mixture -------------------------------------------------------------------------------

  void run_router(const LayerTools& tools) {
    const model::Mixture& mixture = *layer().mixture;
    if (sum_ == nullptr) {
      sum_ = make_rows();
    }
    const std::int64_t experts = std::ssize(mixture.experts);
    statistics::TokenRouter router(mixture.rule, experts,
                                   tools.weights.vector(mixture.selection_bias));
    chosen_.assign(mixture.experts.size(), {});
    std::vector<float> logits;
    std::vector<statistics::RoutedToken> routed;
    for_blocks([&](std::int64_t first, std::int64_t count) {
      throw_if_stopped(tools.stop);
      read_normalised(tools, first, count);
      logits.resize(as_size(count * experts));
      router_logits(tools, mixture, count, normalised_.data(), logits.data());
      routed.resize(as_size(count));
      for (std::int64_t t = 0; t < count; ++t) {
        route(router, std::span(logits).subspan(as_size(t * experts), as_size(experts)), first + t,
              routed[as_size(t)]);
      }
      show_router({layer().number, first, count, experts, logits.data()}, routed);
      if (mixture.shared) {
        run_feed_forward(tools, *mixture.shared, first, count);
        gate_shared(tools, mixture, count);
      } else {
        given_.assign(as_size(count * hidden()), 0.0F);
      }
      sum_->write(first, count, given_.data());
    });
    give_back_all();
  }

  void route(statistics::TokenRouter& router, std::span<const float> logits, std::int64_t row,
             statistics::RoutedToken& token) {
    if (!router.route(logits, token)) {
      token.experts.clear();
      token.weights.clear();
      ++outcome_.unrouted;
      return;
    }
    for (std::size_t i = 0; i < token.experts.size(); ++i) {
      ExpertTokens& expert = chosen_[as_size(token.experts[i])];
      expert.rows.push_back(row);
      expert.weights.push_back(static_cast<float>(token.weights[i]));
    }
  }

  void show_router(const TraceBlock& logits, std::span<const statistics::RoutedToken> routed) {
    for (TraceObserver* const observer : observers_) {
      if (observer->wants_router(logits.layer)) {
        observer->router(logits, routed);
      }
    }
  }

  /// The shared expert's output times the sigmoid of its gate.
  void gate_shared(const LayerTools& tools, const model::Mixture& mixture, std::int64_t count) {
    const std::span<const float> gate = tools.weights.vector(mixture.shared_gate);
    if (gate.empty()) {
      return;
    }
    expects(std::ssize(gate) == hidden(), "a gate as wide as the residual stream");
    for (std::int64_t t = 0; t < count; ++t) {
      const float* const x = normalised_.data() + t * hidden();
      const double product = std::inner_product(
          gate.begin(), gate.end(), x, 0.0, std::plus<>(),
          [](float a, float b) { return static_cast<double>(a) * static_cast<double>(b); });
      const auto factor = static_cast<float>(1.0 / (1.0 + std::exp(-product)));
      float* const row = given_.data() + t * hidden();
      std::for_each(row, row + hidden(), [&](float& value) { value *= factor; });
    }
  }

  /// Outputs are added expert by expert in ascending order: sums do not depend on the budget.
  void run_expert(const LayerTools& tools) {
    const model::FeedForward& ffn = layer().mixture->experts[stage_->expert];
    ExpertTokens& tokens = chosen_[stage_->expert];
    const std::int64_t total = std::ssize(tokens.rows);
    for (std::int64_t first = 0; first < total; first += kTraceBlock) {
      throw_if_stopped(tools.stop);
      const std::int64_t count = std::min(kTraceBlock, total - first);
      const auto rows = std::span(tokens.rows).subspan(as_size(first), as_size(count));
      x_.resize(as_size(count * hidden()));
      normalised_.resize(x_.size());
      given_.resize(x_.size());
      neurons_.resize(as_size(count * ffn.neurons));
      target().gather(rows, x_.data());
      normalise_for_ffn(tools, layer(), count, x_.data(), normalised_.data());
      feed_forward(tools, ffn, count, normalised_.data(), neurons_.data(), given_.data());
      sum_->add(rows, std::span(tokens.weights).subspan(as_size(first), as_size(count)),
                given_.data());
      share_ = static_cast<double>(first) / static_cast<double>(total);
    }
    tokens = {};
    give_back_all();
  }

  /// What shared and routed experts gave, to the residual stream.
  void add_experts(const LayerTools& tools) {
    for_blocks([&](std::int64_t first, std::int64_t count) {
      throw_if_stopped(tools.stop);
      x_.resize(as_size(count * hidden()));
      given_.resize(x_.size());
      target().read(first, count, x_.data());
      sum_->read(first, count, given_.data());
      add_ffn(tools, layer(), count, given_.data(), x_.data());
      target().write(first, count, x_.data());
      show_hidden(first, count);
    });
    give_back_all();
  }

  // --- the end of a layer ----------------------------------------------------------------------

  void end_layer(const LayerTools& tools) {
    throw_if_stopped(tools.stop);
    const auto start = Clock::now();
    for (TraceObserver* const observer : observers_) {
      observer->end_layer(layer().number);
    }
    of_mixture_.clear();
    const auto done = static_cast<std::int32_t>(stage_->layer) + 1;
    if (target_ != nullptr) {
      if (options_.folder != nullptr) {
        target_->sync();
        options_.folder->finish_layers(done);
      }
      source_ = std::move(target_);
    } else if (options_.folder != nullptr) {
      options_.folder->keep(*source_, done);
    }
    outcome_.keeping_seconds += seconds_since(start);
  }

  /// Blocks of attention and of feed-forwards are not there together.
  static void give_back(std::vector<float>& values) { std::vector<float>().swap(values); }
  void give_back_all() {
    for (std::vector<float>* const values : {&x_, &normalised_, &given_, &neurons_}) {
      give_back(*values);
    }
  }

  const ForwardModel& model_;
  const TracePrompts& prompts_;
  const ForwardOptions& options_;
  std::span<TraceObserver* const> observers_;
  const engine::RunHooks& hooks_;
  std::int32_t first_layer_;
  std::vector<TraceStage> stages_;
  std::vector<engine::RowWork> works_;
  TraceMemory memory_;
  ForwardOutcome outcome_;

  std::unique_ptr<TokenRows> source_;  ///< the residual stream
  std::unique_ptr<TokenRows> target_;  ///< in files: behind this layer's attention
  std::unique_ptr<TokenRows> sum_;     ///< what experts gave so far
  std::vector<ExpertTokens> chosen_;   ///< of this layer
  StageVectors of_mixture_;            ///< read for its router: every expert takes the norm
  const TraceStage* stage_ = nullptr;
  std::vector<std::size_t> pass_;      ///< the stages of the pass under way
  engine::ProgressSnapshot progress_;  ///< all stages, and those of earlier passes
  Clock::time_point started_ = Clock::now();
  std::atomic<double> share_{0.0};                       ///< of the stage, for progress
  std::vector<float> x_, normalised_, given_, neurons_;  ///< of a block
};

}  // namespace

void add_reading(input::ReadStatistics& sum, const input::ReadStatistics& more) {
  sum.direct_bytes += more.direct_bytes;
  sum.cached_bytes += more.cached_bytes;
  sum.buffered_bytes += more.buffered_bytes;
  sum.other_bytes += more.other_bytes;
  sum.requests += more.requests;
  sum.busy_seconds += more.busy_seconds;
  sum.unknown_bytes += more.unknown_bytes;
  sum.refused = more.refused;
  sum.direct_rate = more.direct_rate;
  sum.buffered_rate = more.buffered_rate;
  sum.prefers_buffered = more.prefers_buffered;
}

void require_forward_budget(const ForwardModel& model, const TracePrompts& prompts,
                            const ForwardOptions& options) {
  // Nothing of an earlier run is asked for, so that a resumed run refuses what the first one would.
  const auto stages = plan_stages(model.transformer, model.index, prompts, 0);
  (void)plan_memory(model.transformer, prompts, stage_works(stages, model.index, model.backend),
                    model.backend, model.index, options.ram_budget, options.reserved_bytes);
}

ForwardOutcome run_forward(const ForwardModel& model, const TracePrompts& prompts,
                           const ForwardOptions& options, std::span<TraceObserver* const> observers,
                           const engine::RunHooks& hooks) {
  return ForwardRun(model, prompts, options, observers, hooks).run();
}

}  // namespace vindex::commands
