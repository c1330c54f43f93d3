// Owns features as weights: gate_proj by their names, columns of down_proj, and a pass over the
// output embedding for what these raise.
#include "feature_source.hpp"

#include "engine/run/opening.hpp"
#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::commands {

namespace {

class Weights final : public FeatureSource {
 public:
  explicit Weights(engine::OpenModel model)
      : model_(std::move(model)), ends_(model::vocabulary_matrices(model_.files, model_.index)) {}

  const input::ModelFiles& files() const override { return model_.files; }
  const model::ModelIndex& index() const override { return model_.index; }
  std::int64_t embedding() const override { return ends_.input; }
  std::int64_t output() const override { return ends_.output; }
  model::EmbeddingScale scale() const override {
    return model::embedding_scale(model_.files, ends_.input < 0 ? 0 : matrix(ends_.input).cols);
  }
  std::optional<model::Vocabulary> vocabulary(const std::string& tokenizer) const override {
    return model::read_vocabulary(model_.files, tokenizer);
  }

  std::vector<model::FeatureMatrix> features(const model::Selection& selection,
                                             model::FeatureRole role) const override {
    const std::string path = printable(model_.files.path);
    if (model::feature_matrices(model_.files, model_.index, {}, role).empty()) {
      throw MissingInputError(
          "E-NOTHING", fmt::format("{}: nothing to search: the model has no {}", path,
                                   role == model::FeatureRole::kGate
                                       ? "gate_proj (--role up_proj searches models without gates)"
                                       : "up_proj"));
    }
    auto wanted = model::feature_matrices(model_.files, model_.index, selection, role);
    if (wanted.empty()) {
      throw UsageError("E-SELECTION",
                       fmt::format("{}: {}", path, no_features_text(model_.index, selection)));
    }
    return wanted;
  }

  FeatureDescriptions describe(const LookupModel& model,
                               const std::vector<model::FeatureMatrix>& features,
                               const std::vector<FeatureKey>& keys, std::int64_t most) override {
    FeatureDescriptions found;
    const auto listed = read_listed(model, features, keys);
    for (const auto& [key, feature] : listed) {
      found.of[key].gate_down_cosine = feature.gate_down_cosine;
    }
    if (most > 0) {
      name_tokens(model, listed, most, found);
    }
    return found;
  }

 private:
  const model::MatrixRecord& matrix(std::int64_t i) const {
    return model_.index.matrices[static_cast<std::size_t>(i)];
  }

  void name_tokens(const LookupModel& model, const std::map<FeatureKey, ListedFeature>& listed,
                   std::int64_t most, FeatureDescriptions& found) const {
    found.no_tokens = no_tokens_text(model_.index, ends_.output);
    if (!found.no_tokens.empty()) {
      return;
    }
    const model::MatrixRecord& output = matrix(ends_.output);
    std::vector<FeatureKey> keys;
    std::vector<float> values;
    for (const auto& [key, feature] : listed) {
      if (is_writable(feature.down, output.cols)) {
        keys.push_back(key);
        values.insert(values.end(), feature.down.begin(), feature.down.end());
      }
    }
    if (keys.empty()) {
      found.no_tokens =
          "no listed feature has a column of down_proj as wide as the output "
          "embedding";
      return;
    }
    const statistics::QueryVectors columns(values, static_cast<std::int64_t>(keys.size()),
                                           output.cols);
    values = {};
    auto tokens = find_tokens(model, ends_.output, columns, most);
    found.stopped = tokens.empty();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      found.of[keys[i]].tokens = std::move(tokens[i]);
    }
  }

  engine::OpenModel model_;
  model::VocabularyMatrices ends_;
};

}  // namespace

std::string no_features_text(const model::ModelIndex& index, const model::Selection& selection) {
  const std::vector<std::string> parts = model::unmatched_parts(index, selection);
  return parts.empty() ? std::string("the selection names no matrix of features") : parts.front();
}

std::unique_ptr<FeatureSource> open_weights(const std::string& model,
                                            const std::string& model_config, std::int32_t threads,
                                            const std::stop_token& stop) {
  return std::make_unique<Weights>(engine::open_whole(model, model_config, threads, stop));
}

}  // namespace vindex::commands
