// Owns the two passes of a lookup and what lies between them: the best features of every query, the
// columns that they write, and the entries of the vocabulary that these raise most.
//
// Also owns how many queries of a lookup are answered at a time: as many as the budget holds.
#pragma once

#include "lookup_result.hpp"

#include "engine/run/matrix_pass.hpp"
#include "statistics/features/feature_scores.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::commands {

/// Of many things the best few: the largest key first, then the smallest number. What is kept does
/// not depend on the order of offers.
class TopK {
 public:
  struct Item {
    double key = 0.0;
    std::int64_t matrix = 0, number = 0;
    double score = 0.0, norm = 0.0;
  };
  explicit TopK(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}
  void offer(const Item& item);
  /// Cheap: false where an item of that key cannot get in.
  bool may_take(double key) const { return items_.size() < most_ || key >= items_.back().key; }
  void merge(const TopK& other);
  const std::vector<Item>& items() const { return items_; }

 private:
  std::size_t most_;
  std::vector<Item> items_;
};

/// A model as a lookup sees it.
struct LookupModel {
  const input::ModelFiles* files = nullptr;
  const model::ModelIndex* index = nullptr;
  const engine::RunHooks* hooks = nullptr;
  engine::PassOptions options;
};

/// What a search found.
struct Search {
  /// Per query, list_count() of them; Item::matrix is an index into the features given.
  std::vector<TopK> best;
  std::int64_t features = 0, zero = 0, not_finite = 0;
  std::uint64_t bytes = 0;
  engine::RunOutcome pass;
};
Search search_features(const LookupModel& model, const std::vector<model::FeatureMatrix>& features,
                       const statistics::QueryVectors& queries, LookupOrder order,
                       std::int64_t top);

/// Memory of one worker that scores `query_count` vectors at once with the rows of any of
/// `features`, or of matrix `whole`, beside encoded bytes.
std::uint64_t search_workspace(const model::ModelIndex& index,
                               const std::vector<model::FeatureMatrix>& features,
                               std::int64_t query_count);
std::uint64_t search_workspace(const model::MatrixRecord& whole, std::int64_t query_count);

/// Matrix (index into the features given) and number of a feature.
using FeatureKey = std::pair<std::int64_t, std::int64_t>;

/// What is known of a listed feature beyond its scores.
struct ListedFeature {
  double gate_down_cosine = std::numeric_limits<double>::quiet_NaN();
  std::vector<float> down;  ///< its column of down_proj; empty where there is none
};
/// Reads rows of gate_proj and columns of down_proj, nothing else of them.
std::map<FeatureKey, ListedFeature> read_listed(const LookupModel& model,
                                                const std::vector<model::FeatureMatrix>& features,
                                                const std::vector<FeatureKey>& keys);

/// For every row of `columns` the `most` rows of `output` (an index) with the largest products, in
/// one pass over it. Empty where stopped.
std::vector<std::vector<TokenScore>> find_tokens(const LookupModel& model, std::int64_t output,
                                                 const statistics::QueryVectors& columns,
                                                 std::int64_t most);

/// Why `output` (an index, or -1) cannot say which entries are raised; empty where it can.
std::string no_tokens_text(const model::ModelIndex& index, std::int64_t output);
/// Whether a column of down_proj can be multiplied with an output embedding of `width` columns.
bool is_writable(std::span<const float> column, std::int64_t width);

/// Cosine of two vectors; NaN where they have other lengths or no directions.
double cosine_of(std::span<const float> a, std::span<const float> b);

/// What the memory of a lookup depends on; all outlive LookupBatches.
struct BatchShape {
  const LookupSettings* settings = nullptr;
  const model::ModelIndex* index = nullptr;
  const std::vector<model::FeatureMatrix>* features = nullptr;
  std::int64_t output = -1;  ///< matrix of the output embedding, or -1
  std::int64_t width = 0;    ///< of a query
  std::int32_t threads = 1;
};

/// Upper bounds, bytes.
struct BatchMemory {
  std::uint64_t search = 0, describe = 0;            ///< vectors, lists and answers, in either part
  std::uint64_t search_work = 0, describe_work = 0;  ///< of one worker
};

class LookupBatches {
 public:
  explicit LookupBatches(const BatchShape& shape);
  BatchMemory memory(std::size_t queries) const;
  /// As many of the settings' queries as half of ram_budget holds, with a quarter of it for what
  /// workers take, and no more than are of use; one at least, which may be too many.
  std::size_t size() const;

 private:
  std::uint64_t list_bytes(std::uint64_t count, std::uint64_t most) const;

  BatchShape shape_;
  std::uint64_t rows_ = 0;     ///< of all features
  bool names_tokens_ = false;  ///< the output embedding is searched
};

}  // namespace vindex::commands
