// Owns what a lookup is asked for and what it answers.
#pragma once

#include "commands/lookup/queries/lookup_queries.hpp"
#include "commands/lookup/queries/query_list.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "model/selection/selection.hpp"
#include "model/transformer/features.hpp"
#include "model/vocabulary/vocabulary.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::commands {

/// What features are listed by. A gated unit is shut by a negative gate input, so that a positive
/// and a negative answer are not of one kind.
enum class LookupOrder : std::uint8_t {
  kApart,     ///< two lists: the largest positive cosines, and the largest negative ones
  kPositive,  ///< the first of these
  kNegative,  ///< the second
  kCosine,    ///< by size, whatever the sign
  kScore,     ///< by the size of the product
};
/// Lists of each query: 2 of kApart, else 1.
std::size_t list_count(LookupOrder order);
/// What list number `list` of a query is by, in the report: a column's sign, or the order itself.
std::string_view list_name(LookupOrder order, std::size_t list);

/// What the command line asks for.
struct LookupSettings {
  std::string model;  ///< its address, or a file of gate vectors (store_features.hpp)
  std::string model_config;
  std::string tokenizer;  ///< a tokenizer.json; empty: the model's own
  QueryList requests;
  model::Selection selection;
  model::FeatureRole role = model::FeatureRole::kGate;
  LookupOrder order = LookupOrder::kApart;
  TokenPooling pooling = TokenPooling::kMean;  ///< of queries of several tokens
  std::int64_t top = 20;                       ///< features of each list
  std::int64_t tokens_out = 8;                 ///< entries named for each feature
  std::int32_t threads = 0;                    ///< 0: every core
  std::uint64_t ram_budget = 0;
  input::BulkReadOptions reading;
};

struct TokenScore {
  std::int64_t token = 0;
  double score = 0.0;  ///< E_out down[:, f]
};

/// A feature that is listed.
struct FoundFeature {
  std::int64_t matrix = 0;   ///< index into LookupResult::matrices
  std::int64_t feature = 0;  ///< row of its gate_proj
  double score = 0.0, cosine = 0.0, norm = 0.0;
  /// cos(gate_f, down_f), NaN where there is no down_proj to compare with.
  double gate_down_cosine = std::numeric_limits<double>::quiet_NaN();
  std::vector<TokenScore> tokens;  ///< the largest first
};

/// "identity", "transform", "projector", "suppressor", "inverter": the sign and size of
/// cos(gate_f, down_f), cut at 0.5 and 0.2; empty for NaN.
std::string_view circuit_type(double gate_down_cosine);

struct SkippedMatrix {
  std::string name, reason;
};

/// Features that activate for a query, the best first.
struct FeatureList {
  std::string_view by;  ///< "positive", "negative", "cosine", "score"
  /// The largest cosine among them, by size or of the list's sign; NaN of no features.
  double best = std::numeric_limits<double>::quiet_NaN();
  double p = std::numeric_limits<double>::quiet_NaN();  ///< chance of as much among random rows
  std::vector<FoundFeature> features;
};

struct QueryResult {
  Query query;  ///< its vector is dropped
  std::vector<FeatureList> lists;
};

struct LookupResult {
  std::string model;
  std::string made_of;  ///< of a file of gate vectors: its model
  LookupOrder order = LookupOrder::kApart;
  TokenPooling pooling = TokenPooling::kMean;
  model::EmbeddingScale scale;
  std::shared_ptr<const model::Vocabulary> vocabulary;  ///< null: there is none, or none was needed
  std::vector<model::MatrixRecord> matrices;            ///< searched ones, whole
  std::vector<SkippedMatrix> skipped;
  bool is_incomplete = false;  ///< one was skipped that cannot be decoded
  std::string no_tokens;  ///< why no entries are named; empty where they are, or none was asked
  std::int64_t width = 0;
  std::int64_t features = 0;              ///< with a direction: neither zero nor not finite
  std::int64_t zero = 0, not_finite = 0;  ///< the others
  /// Of the largest cosine of as many random rows, by size or of one sign as lists are: mean,
  /// median and 95 % point.
  double expected_max = 0.0, null_median = 0.0, null_q95 = 0.0;
  std::int64_t queries = 0, passes = 0;  ///< passes over the weights: one for each batch of queries
  bool stopped = false;                  ///< what was not seen yet is not there
  double seconds = 0.0;
  std::uint64_t searched_bytes = 0;
  input::ReadStatistics reading;  ///< of the search
  std::string reading_engine;
};

}  // namespace vindex::commands
