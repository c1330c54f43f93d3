// Owns where a lookup finds features, and what it knows of those that it lists: the weights of a
// model, or a file of gate vectors that was made of them (stored_features.hpp).
#pragma once

#include "lookup_features.hpp"
#include "lookup_result.hpp"

#include "model/transformer/features.hpp"
#include "model/vocabulary/vocabulary.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vindex::commands {

/// What listed features are.
struct FeatureDescriptions {
  struct One {
    double gate_down_cosine = std::numeric_limits<double>::quiet_NaN();
    std::vector<TokenScore> tokens = {};  ///< the largest first
  };
  std::map<FeatureKey, One> of = {};
  std::string no_tokens =
      {};                ///< why no entries are named; empty where they are, or none was asked
  bool stopped = false;  ///< what is here is not all
};

class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  virtual const input::ModelFiles& files() const = 0;
  /// Its matrices may be read from files().
  virtual const model::ModelIndex& index() const = 0;
  virtual std::int64_t embedding() const = 0;  ///< of the index; -1: there is none
  /// Of the index: what describe() passes over; -1: nothing.
  virtual std::int64_t output() const = 0;
  virtual model::EmbeddingScale scale() const = 0;
  /// `tokenizer` as model::read_vocabulary(). Errors: those of it.
  virtual std::optional<model::Vocabulary> vocabulary(const std::string& tokenizer) const = 0;
  /// Those of `selection`, also ones that cannot be decoded. Errors: MissingInputError E-NOTHING
  /// (66) where there is none of `role` at all; UsageError E-SELECTION (64).
  virtual std::vector<model::FeatureMatrix> features(const model::Selection& selection,
                                                     model::FeatureRole role) const = 0;
  /// `keys` ascending, of `features`; `most` entries of the vocabulary each.
  virtual FeatureDescriptions describe(const LookupModel& model,
                                       const std::vector<model::FeatureMatrix>& features,
                                       const std::vector<FeatureKey>& keys, std::int64_t most) = 0;
  /// Entries of the vocabulary that describe() may name at most.
  virtual std::int64_t most_tokens() const { return std::numeric_limits<std::int64_t>::max(); }
  /// The model that a file of gate vectors was made of, as it was given; empty: it is the model.
  virtual std::string made_of() const { return ""; }
};

/// Why `selection` names no features of `index`.
std::string no_features_text(const model::ModelIndex& index, const model::Selection& selection);

/// The weights of a model. Errors: those of engine::open_whole().
std::unique_ptr<FeatureSource> open_weights(const std::string& model,
                                            const std::string& model_config, std::int32_t threads,
                                            const std::stop_token& stop);

}  // namespace vindex::commands
