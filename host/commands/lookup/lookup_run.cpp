// Owns the steps of a lookup: model, sides that are searched, batches of queries, report.
#include "lookup_run.hpp"

#include "commands/lookup/features/feature_source.hpp"
#include "commands/lookup/features/lookup_features.hpp"
#include "commands/lookup/queries/query_maker.hpp"
#include "commands/lookup/store/stored_features.hpp"
#include "core/process/parallel.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/run/description_parts.hpp"
#include "model/selection/selection.hpp"
#include "statistics/null/largest_cosine.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace vindex::commands {

namespace {

/// The weights, or the file of gate vectors, that `settings` name.
std::unique_ptr<FeatureSource> open_features(const LookupSettings& settings,
                                             const std::stop_token& stop) {
  if (!is_stored_features(settings.model)) {
    return open_weights(settings.model, settings.model_config, settings.threads, stop);
  }
  if (!settings.model_config.empty()) {
    throw UsageError("E-USAGE",
                     fmt::format("--model-config is for weights; {} has what was read of it",
                                 printable(settings.model)));
  }
  return open_stored_features(settings.model);
}

statistics::CosineSides sides(LookupOrder order) {
  return order == LookupOrder::kCosine || order == LookupOrder::kScore
             ? statistics::CosineSides::kBoth
             : statistics::CosineSides::kOne;
}

/// A lookup from settings to result, step by step.
class Lookup {
 public:
  Lookup(const LookupSettings& settings, const engine::RunHooks& hooks, const SeeQuery& see)
      : settings_(settings),
        hooks_(hooks),
        see_(see),
        source_(open_features(settings, hooks.stop)) {}

  LookupResult run() {
    const auto started = std::chrono::steady_clock::now();
    result_.model = settings_.model;
    result_.order = settings_.order;
    result_.pooling = settings_.pooling;
    result_.made_of = source_->made_of();
    check_queries();
    choose_features();
    result_.queries = static_cast<std::int64_t>(settings_.requests.size());
    batches_.emplace(BatchShape{.settings = &settings_,
                                .index = &source_->index(),
                                .features = &features_,
                                .output = source_->output(),
                                .width = result_.width,
                                .threads = threads()});
    const std::size_t batch = batches_->size();
    talk(batch);
    for (std::size_t first = 0; first < settings_.requests.size() && !result_.stopped;
         first += batch) {
      answer(first, std::min(settings_.requests.size(), first + batch));
    }
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(result_);
  }

 private:
  const model::MatrixRecord& matrix(std::int64_t i) const {
    return source_->index().matrices[static_cast<std::size_t>(i)];
  }

  /// Nothing is written before all queries are known to be sound.
  void check_queries() {
    // Names of what is written need it too, and do without it where it is not there.
    if (settings_.requests.needs_vocabulary() || settings_.tokens_out > 0) {
      if (auto vocabulary = source_->vocabulary(settings_.tokenizer)) {
        result_.vocabulary = std::make_shared<const model::Vocabulary>(std::move(*vocabulary));
      }
    }
    result_.scale = source_->scale();
    maker_.emplace(result_.vocabulary.get(), source_->files(), source_->index(),
                   EmbeddingPlace{source_->embedding(), result_.scale.factor, settings_.pooling});
    expects(!settings_.requests.empty(), "look_up: a query at least");
    for (std::size_t i = 0; i < settings_.requests.size(); ++i) {
      result_.width = static_cast<std::int64_t>(maker_->make(settings_.requests[i], i).x.size());
    }
    maker_->require_unchanged();
  }

  /// Leaves in features_ what can be searched.
  void choose_features() {
    const auto wanted = source_->features(settings_.selection, settings_.role);
    bool any_fits = false;
    for (const model::FeatureMatrix& one : wanted) {
      const model::MatrixRecord& record = matrix(one.matrix);
      const bool fits = record.cols == result_.width;
      const std::string reason =
          fits ? model::undecodable_text(record)
               : fmt::format("takes {} inputs, the queries have {}", record.cols, result_.width);
      result_.is_incomplete = result_.is_incomplete || (fits && !reason.empty());
      any_fits = any_fits || fits;
      if (reason.empty()) {
        features_.push_back(one);
        result_.matrices.push_back(record);
      } else {
        result_.skipped.push_back({model::matrix_name(record), reason});
      }
    }
    if (features_.empty()) {
      const SkippedMatrix& first = result_.skipped.front();
      if (!any_fits) {
        throw ConfigurationError("E-QUERY-WIDTH",
                                 fmt::format("{}: {}; a vector of this model's hidden size is "
                                             "needed",
                                             first.name, first.reason));
      }
      throw FormatError("E-UNSUPPORTED", first.name, first.reason);
    }
  }

  void talk(std::size_t batch) {
    std::vector<std::string> lines;
    engine::add_warnings(source_->files(), source_->index(), "", lines);
    for (const std::string& part : model::unmatched_parts(source_->index(), settings_.selection)) {
      lines.push_back("warning W-SELECTION: " + part);
    }
    lines.push_back(fmt::format("back end: cpu ({} workers; a search needs no device)", threads()));
    if (const std::int64_t most = source_->most_tokens(); most > 0 && most < settings_.tokens_out) {
      lines.push_back(
          fmt::format("note: the file has {} entries for each feature, --tokens-out is "
                      "{}",
                      most, settings_.tokens_out));
    }
    if (batch < settings_.requests.size()) {
      lines.push_back(fmt::format(
          "{} queries, {} at a time within --ram-budget: {} passes over the weights",
          settings_.requests.size(), batch, (settings_.requests.size() + batch - 1) / batch));
    }
    for (const std::string& line : lines) {
      if (hooks_.message) {
        hooks_.message(line);
      }
    }
  }

  std::int32_t threads() const {
    return settings_.threads > 0 ? settings_.threads : usable_cores();
  }

  /// The model, for a pass beside `reserved_bytes` of the budget.
  LookupModel view(std::uint64_t reserved_bytes) {
    engine::require_budget(settings_.ram_budget,
                           "twice what is listed (a smaller --top or --tokens-out 0 helps)",
                           2 * reserved_bytes);
    return {.files = &source_->files(),
            .index = &source_->index(),
            .hooks = &hooks_,
            .options = {.threads = threads(),
                        .ram_budget = settings_.ram_budget,
                        .reserved_bytes = reserved_bytes,
                        .reading = settings_.reading,
                        .rows_pass_by = true}};
  }

  /// Queries `first` to `end`, from vectors to the caller.
  void answer(std::size_t first, std::size_t end) {
    answers_.clear();
    const BatchMemory memory = batches_->memory(end - first);
    std::vector<Query> queries;
    std::vector<float> values;
    for (std::size_t i = first; i < end; ++i) {
      queries.push_back(maker_->make(settings_.requests[i], i));
      values.insert(values.end(), queries.back().x.begin(), queries.back().x.end());
      queries.back().x = {};
    }
    maker_->require_unchanged();
    {
      const statistics::QueryVectors vectors(values, static_cast<std::int64_t>(queries.size()),
                                             result_.width);
      values = {};
      search(vectors, std::move(queries), memory.search);
    }
    if (!result_.stopped) {
      describe_listed(memory.describe);
    }
    if (!result_.stopped) {
      ++result_.passes;
      for (const QueryResult& query : answers_) {
        see_(result_, query);
      }
    }
  }

  void search(const statistics::QueryVectors& vectors, std::vector<Query> queries,
              std::uint64_t reserved_bytes) {
    const Search found =
        search_features(view(reserved_bytes), features_, vectors, settings_.order, settings_.top);
    result_.stopped = found.pass.stopped;
    result_.reading = found.pass.reading;
    result_.reading_engine = found.pass.reading_engine;
    result_.features = found.features;
    result_.zero = found.zero;
    result_.not_finite = found.not_finite;
    result_.searched_bytes += found.bytes;
    const statistics::CosineSides side = sides(settings_.order);
    const std::int64_t width = result_.width;
    result_.expected_max = statistics::expected_largest_cosine(found.features, width, side);
    result_.null_median = statistics::largest_cosine_quantile(0.5, found.features, width, side);
    result_.null_q95 = statistics::largest_cosine_quantile(0.95, found.features, width, side);
    const std::size_t lists = list_count(settings_.order);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      QueryResult one;
      for (std::size_t list = 0; list < lists; ++list) {
        one.lists.push_back(list_of(queries[i], list, found.best[i * lists + list].items()));
      }
      one.query = std::move(queries[i]);
      answers_.push_back(std::move(one));
    }
  }

  FeatureList list_of(const Query& query, std::size_t number,
                      const std::vector<TopK::Item>& items) const {
    FeatureList list;
    list.by = list_name(settings_.order, number);
    double best = 0.0;
    for (const TopK::Item& item : items) {
      FoundFeature feature;
      feature.matrix = item.matrix;
      feature.feature = item.number;
      feature.score = item.score;
      feature.norm = item.norm;
      feature.cosine = std::clamp(item.score / (item.norm * query.norm), -1.0, 1.0);
      if (std::abs(feature.cosine) >= std::abs(best)) {
        best = feature.cosine;
      }
      list.features.push_back(std::move(feature));
    }
    if (!items.empty()) {
      list.best = best;
      list.p = statistics::chance_of_largest_cosine(std::abs(best), result_.features, result_.width,
                                                    sides(settings_.order));
    }
    return list;
  }

  void describe_listed(std::uint64_t reserved_bytes) {
    std::set<FeatureKey> keys;
    for (const QueryResult& query : answers_) {
      for (const FeatureList& list : query.lists) {
        for (const FoundFeature& feature : list.features) {
          keys.emplace(feature.matrix, feature.feature);
        }
      }
    }
    FeatureDescriptions found = source_->describe(view(reserved_bytes), features_,
                                                  {keys.begin(), keys.end()}, settings_.tokens_out);
    result_.stopped = found.stopped;
    result_.no_tokens = found.no_tokens;
    for_each_found([&](FoundFeature& feature) {
      const FeatureDescriptions::One& one = found.of.at({feature.matrix, feature.feature});
      feature.gate_down_cosine = one.gate_down_cosine;
      feature.tokens = one.tokens;
    });
  }

  template <typename Do>
  void for_each_found(Do with) {
    for (QueryResult& query : answers_) {
      for (FeatureList& list : query.lists) {
        for (FoundFeature& feature : list.features) {
          with(feature);
        }
      }
    }
  }

  const LookupSettings& settings_;
  const engine::RunHooks& hooks_;
  const SeeQuery& see_;
  std::unique_ptr<FeatureSource> source_;
  std::optional<QueryMaker> maker_;
  std::optional<LookupBatches> batches_;
  std::vector<model::FeatureMatrix> features_;
  std::vector<QueryResult> answers_;  ///< of one batch
  LookupResult result_;
};

}  // namespace

LookupResult look_up(const LookupSettings& settings, const engine::RunHooks& hooks,
                     const SeeQuery& see) {
  return Lookup(settings, hooks, see).run();
}

}  // namespace vindex::commands
