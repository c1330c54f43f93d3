#include "description_parts.hpp"
#include "lookup_features.hpp"
#include "opening.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/parallel.hpp>
#include <vindex/measure/largest_cosine.hpp>
#include <vindex/model/unmeasured.hpp>
#include <vindex/run/lookup_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>

namespace vindex::run {

namespace {

/// A lookup from settings to result, step by step.
class Lookup {
 public:
  Lookup(const LookupSettings& settings, const RunHooks& hooks)
      : settings_(settings),
        hooks_(hooks),
        model_(open_whole(settings.model, settings.model_config, settings.threads)) {}

  LookupResult run() {
    const auto started = std::chrono::steady_clock::now();
    result_.model = settings_.model;
    result_.order = settings_.order;
    const model::VocabularyMatrices ends = model::vocabulary_matrices(model_.files, model_.index);
    make_query_vectors(ends);
    choose_features();
    talk();
    search();
    if (!result_.stopped) {
      describe_listed(ends);
    }
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return std::move(result_);
  }

 private:
  const model::MatrixRecord& matrix(std::int64_t i) const {
    return model_.index.matrices[static_cast<std::size_t>(i)];
  }

  void make_query_vectors(const model::VocabularyMatrices& ends) {
    // Names of what is written need it too, and do without it where it is not there.
    if (needs_vocabulary(settings_.wishes) || settings_.tokens_out > 0) {
      if (auto vocabulary = model::read_vocabulary(model_.files, settings_.tokenizer)) {
        result_.vocabulary = std::make_shared<const model::Vocabulary>(std::move(*vocabulary));
      }
    }
    result_.scale =
        model::embedding_scale(model_.files, ends.input < 0 ? 0 : matrix(ends.input).cols);
    queries_ = make_queries(settings_.wishes, result_.vocabulary.get(), model_.files, model_.index,
                            ends.input, result_.scale.factor);
    expects(!queries_.empty(), "look_up: a query at least");
    result_.width = static_cast<std::int64_t>(queries_.front().x.size());
  }

  /// Leaves in features_ what can be searched.
  void choose_features() {
    if (model::feature_matrices(model_.files, model_.index, {}, settings_.role).empty()) {
      throw MissingInputError(
          "E-NOTHING",
          fmt::format("{}: nothing to search: the model has no {}", printable(settings_.model),
                      settings_.role == model::FeatureRole::kGate
                          ? "gate_proj (--role up_proj searches models without gates)"
                          : "up_proj"));
    }
    const auto wanted =
        model::feature_matrices(model_.files, model_.index, settings_.selection, settings_.role);
    if (wanted.empty()) {
      throw UsageError("E-SELECTION", fmt::format("{}: the selection names no matrix of features",
                                                  printable(settings_.model)));
    }
    bool any_fits = false;
    for (const model::FeatureMatrix& one : wanted) {
      const model::MatrixRecord& record = matrix(one.matrix);
      std::string reason = model::undecodable_text(record);
      result_.is_incomplete = result_.is_incomplete || !reason.empty();
      if (reason.empty() && record.cols != result_.width) {
        reason = fmt::format("takes {} inputs, the queries have {}", record.cols, result_.width);
      }
      any_fits = any_fits || record.cols == result_.width;
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

  void talk() {
    std::vector<std::string> lines;
    add_warnings(model_.files, model_.index, "", lines);
    for (const std::string& part : model::unmatched_parts(model_.index, settings_.selection)) {
      lines.push_back("warning W-SELECTION: " + part);
    }
    lines.push_back(fmt::format("back end: cpu ({} workers; a search needs no device)", threads()));
    for (const std::string& line : lines) {
      if (hooks_.message) {
        hooks_.message(line);
      }
    }
  }

  std::int32_t threads() const {
    return settings_.threads > 0 ? settings_.threads : usable_cores();
  }

  /// The model with what the budget leaves beside `held` bytes.
  LookupModel view(std::uint64_t held) {
    if (held > settings_.ram_budget / 2) {
      throw ConfigurationError(
          "E-BUDGET",
          fmt::format("--ram-budget of {} bytes is too small: the lists need {} and may "
                      "take half of it; fewer queries, a smaller --top or --tokens-out 0 "
                      "need less",
                      settings_.ram_budget, held));
    }
    return {.files = &model_.files,
            .index = &model_.index,
            .hooks = &hooks_,
            .options = {.threads = threads(),
                        .ram_budget = settings_.ram_budget - held,
                        .reading = settings_.reading}};
  }

  /// Lists of `count` things of `most` items, one for the whole and one a worker.
  std::uint64_t list_bytes(std::uint64_t count, std::int64_t most) const {
    return count * static_cast<std::uint64_t>(most) * sizeof(BestFew::Item) *
           (static_cast<std::uint64_t>(threads()) + 1);
  }

  void search() {
    std::vector<float> values;
    for (Query& query : queries_) {
      values.insert(values.end(), query.x.begin(), query.x.end());
      query.x = {};
    }
    const measure::QueryVectors vectors(values, static_cast<std::int64_t>(queries_.size()),
                                        result_.width);
    values = {};
    held_ = vectors.bytes() + list_bytes(queries_.size(), settings_.top);
    const Search found =
        search_features(view(held_), features_, vectors, settings_.order, settings_.top);
    result_.stopped = !found.pass.finished;
    result_.reading = found.pass.reading;
    result_.reading_engine = found.pass.engine;
    result_.features = found.features;
    result_.zero = found.zero;
    result_.not_finite = found.not_finite;
    result_.searched_bytes = found.bytes;
    result_.expected_max = measure::expected_largest_cosine(found.features, result_.width);
    result_.null_median = measure::largest_cosine_quantile(0.5, found.features, result_.width);
    result_.null_q95 = measure::largest_cosine_quantile(0.95, found.features, result_.width);
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      add_query(std::move(queries_[i]), found.best[i].items());
    }
  }

  void add_query(Query query, const std::vector<BestFew::Item>& items) {
    QueryResult one;
    double best = 0.0;
    for (const BestFew::Item& item : items) {
      FoundFeature feature;
      feature.matrix = item.matrix;
      feature.feature = item.number;
      feature.score = item.score;
      feature.norm = item.norm;
      feature.cosine = std::clamp(item.score / (item.norm * query.norm), -1.0, 1.0);
      best = std::max(best, std::abs(feature.cosine));
      one.features.push_back(std::move(feature));
    }
    one.chance = measure::chance_of_largest_cosine(best, result_.features, result_.width);
    one.query = std::move(query);
    result_.queries.push_back(std::move(one));
  }

  void describe_listed(const model::VocabularyMatrices& ends) {
    std::set<FeatureKey> keys;
    for (const QueryResult& query : result_.queries) {
      for (const FoundFeature& feature : query.features) {
        keys.emplace(feature.matrix, feature.feature);
      }
    }
    const std::uint64_t columns =
        keys.size() * static_cast<std::uint64_t>(result_.width) * sizeof(float);
    // Columns as read, and again as queries of the output embedding.
    const std::uint64_t held = 2 * columns + list_bytes(keys.size(), settings_.tokens_out);
    LookupModel model = view(held);
    const auto listed = read_listed(model, features_, {keys.begin(), keys.end()});
    for (QueryResult& query : result_.queries) {
      for (FoundFeature& feature : query.features) {
        feature.gate_down_cosine = listed.at({feature.matrix, feature.feature}).gate_down_cosine;
      }
    }
    if (settings_.tokens_out > 0) {
      name_tokens(model, ends, listed);
    }
  }

  void name_tokens(const LookupModel& model, const model::VocabularyMatrices& ends,
                   const std::map<FeatureKey, ListedFeature>& listed) {
    result_.tied_output = ends.tied;
    if (ends.output < 0) {
      result_.no_tokens = "the model has no output embedding";
      return;
    }
    const model::MatrixRecord& output = matrix(ends.output);
    if (const std::string reason = model::undecodable_text(output); !reason.empty()) {
      result_.no_tokens = fmt::format("{}: {}", model::matrix_name(output), reason);
      return;
    }
    std::vector<FeatureKey> keys;
    std::vector<float> values;
    for (const auto& [key, feature] : listed) {
      if (static_cast<std::int64_t>(feature.down.size()) == output.cols &&
          std::all_of(feature.down.begin(), feature.down.end(),
                      [](float value) { return std::isfinite(value); })) {
        keys.push_back(key);
        values.insert(values.end(), feature.down.begin(), feature.down.end());
      }
    }
    if (keys.empty()) {
      result_.no_tokens =
          "no listed feature has a column of down_proj as wide as the output "
          "embedding";
      return;
    }
    const measure::QueryVectors columns(values, static_cast<std::int64_t>(keys.size()),
                                        output.cols);
    values = {};
    const auto tokens = find_tokens(model, ends.output, columns, settings_.tokens_out);
    if (tokens.empty()) {
      result_.stopped = true;
      return;
    }
    for (QueryResult& query : result_.queries) {
      for (FoundFeature& feature : query.features) {
        const auto at =
            std::lower_bound(keys.begin(), keys.end(), FeatureKey(feature.matrix, feature.feature));
        if (at != keys.end() && *at == FeatureKey(feature.matrix, feature.feature)) {
          feature.tokens = tokens[static_cast<std::size_t>(at - keys.begin())];
        }
      }
    }
  }

  const LookupSettings& settings_;
  const RunHooks& hooks_;
  OpenModel model_;
  std::vector<Query> queries_;
  std::vector<model::FeatureMatrix> features_;
  std::uint64_t held_ = 0;
  LookupResult result_;
};

}  // namespace

std::string_view circuit_type(double gate_down_cosine) {
  constexpr double kSame = 0.5, kRelated = 0.2;
  if (std::isnan(gate_down_cosine)) {
    return "";
  }
  if (std::abs(gate_down_cosine) < kRelated) {
    return "projector";
  }
  if (std::abs(gate_down_cosine) <= kSame) {
    return gate_down_cosine > 0.0 ? "transform" : "suppressor";
  }
  return gate_down_cosine > 0.0 ? "identity" : "inverter";
}

LookupResult look_up(const LookupSettings& settings, const RunHooks& hooks) {
  return Lookup(settings, hooks).run();
}

}  // namespace vindex::run
