// Owns `vindex lookup`: which features of a model answer to a token or a vector, what chance would
// give, and what each of them writes. Definitions: docs/lookup.md.
#pragma once

#include <vindex/model/embedding_scale.hpp>
#include <vindex/model/features.hpp>
#include <vindex/model/vocabulary.hpp>
#include <vindex/run/job_runner.hpp>
#include <vindex/run/lookup_queries.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace vindex::run {

enum class LookupOrder : std::uint8_t { kCosine, kScore };

/// What the command line asks for.
struct LookupSettings {
  std::string model, model_config;
  std::string tokenizer;  ///< a tokenizer.json; empty: the model's own
  std::vector<QueryWish> wishes;
  model::Selection selection;
  model::FeatureRole role = model::FeatureRole::kGate;
  LookupOrder order = LookupOrder::kCosine;
  std::int64_t top = 20;        ///< features listed for each query
  std::int64_t tokens_out = 8;  ///< entries named for each feature
  std::int32_t threads = 0;     ///< 0: every core
  std::uint64_t ram_budget = 0;
  shard::BulkReadOptions reading;
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

struct QueryResult {
  Query query;                         ///< its vector is dropped
  double chance = 0.0;                 ///< that the best of random directions is as large
  std::vector<FoundFeature> features;  ///< the best first
};

struct LookupResult {
  std::string model;
  LookupOrder order = LookupOrder::kCosine;
  model::EmbeddingScale scale;
  std::shared_ptr<const model::Vocabulary> vocabulary;  ///< null: there is none, or none was needed
  std::vector<model::MatrixRecord> matrices;            ///< searched ones, whole
  std::vector<SkippedMatrix> skipped;
  bool is_incomplete = false;  ///< one was skipped that cannot be decoded
  std::string no_tokens;  ///< why no entries are named; empty where they are, or none was asked
  bool tied_output = false;
  std::int64_t width = 0;
  std::int64_t features = 0;              ///< with a direction: neither zero nor not finite
  std::int64_t zero = 0, not_finite = 0;  ///< the others
  double expected_max = 0.0;              ///< sqrt(2 ln features / width)
  double null_median = 0.0, null_q95 = 0.0;
  std::vector<QueryResult> queries;
  bool stopped = false;  ///< nothing else counts then
  double seconds = 0.0;
  std::uint64_t searched_bytes = 0;
  shard::ReadStatistics reading;  ///< of the search
  std::string reading_engine;
};

/// Searches. Errors: those of open_model(), index_model(), read_vocabulary() and make_queries();
/// MissingInputError E-NOTHING (66) without a feature matrix; UsageError E-SELECTION (64);
/// ConfigurationError E-QUERY-WIDTH (78) where none takes inputs of the queries' width, E-BUDGET
/// (78); FormatError E-UNSUPPORTED (65) where no matrix can be decoded; those of reading.
LookupResult look_up(const LookupSettings& settings, const RunHooks& hooks);

/// One JSON document of schema "vindex-lookup/1" (docs/lookup.md).
std::string lookup_json(const LookupResult& result);
/// Tables for people, `width` columns.
std::string lookup_text(const LookupResult& result, std::size_t width);

}  // namespace vindex::run
