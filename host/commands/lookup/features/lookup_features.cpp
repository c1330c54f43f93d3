// Owns both passes of a lookup (features by their cosines and tokens by what features write), lists
// of the best, the memory of one query and how many fit the budget.
#include "lookup_features.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/unit_stream.hpp"
#include "model/selection/selection.hpp"
#include "statistics/features/feature_scores.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace vindex::commands {

namespace {

/// Plainly stored matrices are read in ranges of about this size, so that one large matrix keeps
/// every worker busy and needs little memory.
constexpr std::uint64_t kRangeBytes = 32U << 20U;

/// A part of a matrix that is searched by itself.
struct SearchedRange {
  std::int64_t owner = 0;  ///< as the caller numbers matrices
  std::int64_t first = 0;  ///< number of its first feature in the matrix
  statistics::ScoredRows rows;
};

struct SearchedRanges {
  std::vector<SearchedRange> ranges;
  std::vector<engine::PassMatrix> matrices;  ///< one for each range
};

void add_range(std::int64_t owner, std::int64_t first, model::MatrixRecord record,
               const model::FeatureRows& rows, std::int64_t query_count, SearchedRanges& out) {
  const statistics::ScoreWorkspace workspace = statistics::score_workspace(
      record.encoding, record.stored_rows(), record.stored_cols(), record.transposed, query_count);
  out.ranges.push_back({owner, first, {rows.first, rows.step, rows.count}});
  out.matrices.push_back({std::move(record), workspace.decoded, workspace.encoded});
}

/// Features `rows` of `whole` in ranges.
void add_ranges(std::int64_t owner, const model::MatrixRecord& whole,
                const model::FeatureRows& rows, std::int64_t query_count, SearchedRanges& out) {
  const model::SearchedPart part = model::searched_part(whole, rows);
  const std::uint64_t bytes = part.matrix.codes.bytes;
  const auto count = static_cast<std::int64_t>(bytes / kRangeBytes + 1);
  const std::int64_t step = (part.rows.count + count - 1) / std::max<std::int64_t>(count, 1);
  if (count > 1 && part.rows.step == 1 && model::cut_record(part.matrix, 0, 0)) {
    for (std::int64_t first = 0; first < part.rows.count; first += step) {
      const std::int64_t some = std::min(step, part.rows.count - first);
      auto cut = model::cut_record(part.matrix, part.rows.first + first, some);
      add_range(owner, first, std::move(*cut), {0, 1, some}, query_count, out);
    }
    return;
  }
  add_range(owner, 0, part.matrix, part.rows, query_count, out);
}

/// What the rows of a matrix with these scores are listed by: list, and key (the largest first);
/// no list where the order has none for that sign.
struct Placed {
  std::optional<std::size_t> list;
  double key = 0.0;
};
Placed placed(LookupOrder order, double score, double norms) {
  const double size = std::abs(score);
  switch (order) {
    case LookupOrder::kScore:
      return {0, size};
    case LookupOrder::kCosine:
      return {0, size / norms};
    case LookupOrder::kPositive:
      return {score > 0.0 ? std::optional<std::size_t>(0) : std::nullopt, size / norms};
    case LookupOrder::kNegative:
      return {score < 0.0 ? std::optional<std::size_t>(0) : std::nullopt, size / norms};
    case LookupOrder::kApart:
      break;
  }
  if (score == 0.0) {
    return {};
  }
  return {score > 0.0 ? 0U : 1U, size / norms};
}

}  // namespace

double cosine_of(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double product = 0.0, of_a = 0.0, of_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    product += x * y;
    of_a += x * x;
    of_b += y * y;
  }
  const double cosine = product / (std::sqrt(of_a) * std::sqrt(of_b));
  return std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0)
                               : std::numeric_limits<double>::quiet_NaN();
}

std::string no_tokens_text(const model::ModelIndex& index, std::int64_t output) {
  if (output < 0) {
    return "the model has no output embedding";
  }
  const auto& matrix = index.matrices[static_cast<std::size_t>(output)];
  const std::string reason = model::undecodable_text(matrix);
  return reason.empty() ? "" : fmt::format("{}: {}", model::matrix_name(matrix), reason);
}

bool is_writable(std::span<const float> column, std::int64_t width) {
  return std::cmp_equal(column.size(), width) &&
         std::all_of(column.begin(), column.end(),
                     [](float value) { return std::isfinite(value); });
}

void TopK::offer(const Item& item) {
  const auto is_before = [](const Item& a, const Item& b) {
    return std::tuple(-a.key, a.matrix, a.number) < std::tuple(-b.key, b.matrix, b.number);
  };
  if (items_.size() == most_ && (most_ == 0 || !is_before(item, items_.back()))) {
    return;
  }
  items_.insert(std::upper_bound(items_.begin(), items_.end(), item, is_before), item);
  if (items_.size() > most_) {
    items_.pop_back();
  }
}

void TopK::merge(const TopK& other) {
  for (const Item& item : other.items_) {
    offer(item);
  }
}

Search search_features(const LookupModel& model, const std::vector<model::FeatureMatrix>& features,
                       const statistics::QueryVectors& queries, LookupOrder order,
                       std::int64_t top) {
  SearchedRanges work;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const auto& whole = model.index->matrices[static_cast<std::size_t>(features[i].matrix)];
    add_ranges(static_cast<std::int64_t>(i), whole, features[i].rows, queries.count(), work);
  }
  Search found;
  const std::size_t lists = list_count(order);
  found.best.assign(static_cast<std::size_t>(queries.count()) * lists, TopK(top));
  for (const engine::PassMatrix& matrix : work.matrices) {
    found.bytes += engine::stored_bytes(matrix.record);
  }
  std::mutex mutex;
  const auto search_range = [&](std::size_t number, MatrixInput& input) {
    const SearchedRange& range = work.ranges[number];
    std::vector<TopK> best(found.best.size(), TopK(top));
    std::int64_t counted = 0, zero = 0, not_finite = 0;
    statistics::score_rows(input, range.rows, queries, [&](const statistics::ScoredSlab& slab) {
      throw_if_stopped(model.hooks->stop);
      for (std::int64_t i = 0; i < slab.count; ++i) {
        const double norm = std::sqrt(slab.squares[i]);
        if (!(norm > 0.0) || !std::isfinite(norm)) {
          ++(norm == 0.0 ? zero : not_finite);
          continue;
        }
        ++counted;
        const double* scores = slab.scores + i * slab.query_count;
        for (std::int64_t query = 0; query < slab.query_count; ++query) {
          const Placed place = placed(order, scores[query], norm * queries.norm(query));
          if (!place.list) {
            continue;
          }
          TopK& list = best[static_cast<std::size_t>(query) * lists + *place.list];
          if (list.may_take(place.key)) {
            list.offer({place.key, range.owner, range.first + slab.first + i, scores[query], norm});
          }
        }
      }
    });
    const std::lock_guard lock(mutex);
    found.features += counted;
    found.zero += zero;
    found.not_finite += not_finite;
    for (std::size_t list = 0; list < best.size(); ++list) {
      found.best[list].merge(best[list]);
    }
  };
  found.pass =
      engine::pass_over(*model.files, work.matrices, model.options, search_range, *model.hooks);
  return found;
}

namespace {

std::uint64_t ranges_workspace(const SearchedRanges& work) {
  std::uint64_t largest = 0;
  for (const engine::PassMatrix& matrix : work.matrices) {
    largest = std::max(largest, matrix.decoded);
  }
  return largest;
}

}  // namespace

std::uint64_t search_workspace(const model::ModelIndex& index,
                               const std::vector<model::FeatureMatrix>& features,
                               std::int64_t query_count) {
  std::uint64_t largest = 0;
  for (const model::FeatureMatrix& one : features) {
    SearchedRanges work;
    add_ranges(0, index.matrices[static_cast<std::size_t>(one.matrix)], one.rows, query_count,
               work);
    largest = std::max(largest, ranges_workspace(work));
  }
  return largest;
}

std::uint64_t search_workspace(const model::MatrixRecord& whole, std::int64_t query_count) {
  SearchedRanges work;
  add_ranges(0, whole, {0, 1, whole.rows}, query_count, work);
  return ranges_workspace(work);
}

std::map<FeatureKey, ListedFeature> read_listed(const LookupModel& model,
                                                const std::vector<model::FeatureMatrix>& features,
                                                const std::vector<FeatureKey>& keys) {
  std::map<FeatureKey, ListedFeature> listed;
  for (const FeatureKey& key : keys) {
    listed.try_emplace(key);
  }
  // Features of one matrix one after the other: its companions are read once.
  std::vector<std::map<FeatureKey, ListedFeature>::iterator> begins;
  for (auto at = listed.begin(); at != listed.end(); ++at) {
    if (at == listed.begin() || std::prev(at)->first.first != at->first.first) {
      begins.push_back(at);
    }
  }
  begins.push_back(listed.end());
  engine::SourceWatch watch(*model.files);
  const auto threads = static_cast<std::size_t>(model.options.threads);
  for_each_index(begins.size() - 1, threads, [&](std::size_t /*worker*/, std::size_t i) {
    const model::FeatureMatrix& of = features[static_cast<std::size_t>(begins[i]->first.first)];
    if (model.hooks->stop.stop_requested() || of.down < 0) {
      return;
    }
    const auto& gate = model.index->matrices[static_cast<std::size_t>(of.matrix)];
    const auto& down = model.index->matrices[static_cast<std::size_t>(of.down)];
    if (!model::undecodable_text(down).empty()) {
      return;
    }
    const auto gate_input = engine::make_streamed_input(watch, gate);
    const auto down_input = engine::make_streamed_input(watch, down);
    for (auto at = begins[i]; at != begins[i + 1]; ++at) {
      at->second.down = statistics::logical_column(*down_input, at->first.second);
      at->second.gate_down_cosine = cosine_of(
          statistics::logical_row(*gate_input, of.rows.row(at->first.second)), at->second.down);
    }
  });
  watch.require_unchanged();
  return listed;
}

std::vector<std::vector<TokenScore>> find_tokens(const LookupModel& model, std::int64_t output,
                                                 const statistics::QueryVectors& columns,
                                                 std::int64_t most) {
  const auto& whole = model.index->matrices[static_cast<std::size_t>(output)];
  SearchedRanges work;
  add_ranges(0, whole, {0, 1, whole.rows}, columns.count(), work);
  std::vector<TopK> found(static_cast<std::size_t>(columns.count()), TopK(most));
  std::mutex mutex;
  const auto search_range = [&](std::size_t number, MatrixInput& input) {
    const SearchedRange& range = work.ranges[number];
    std::vector<TopK> best(found.size(), TopK(most));
    statistics::score_rows(input, range.rows, columns, [&](const statistics::ScoredSlab& slab) {
      throw_if_stopped(model.hooks->stop);
      for (std::int64_t i = 0; i < slab.count; ++i) {
        for (std::int64_t column = 0; column < slab.query_count; ++column) {
          const double score = slab.scores[i * slab.query_count + column];
          TopK& list = best[static_cast<std::size_t>(column)];
          if (std::isfinite(score) && list.may_take(score)) {
            list.offer({score, 0, range.first + slab.first + i, score, 0.0});
          }
        }
      }
    });
    const std::lock_guard lock(mutex);
    for (std::size_t column = 0; column < best.size(); ++column) {
      found[column].merge(best[column]);
    }
  };
  if (engine::pass_over(*model.files, work.matrices, model.options, search_range, *model.hooks)
          .stopped) {
    return {};
  }
  std::vector<std::vector<TokenScore>> tokens;
  for (const TopK& list : found) {
    std::vector<TokenScore>& of_column = tokens.emplace_back();
    for (const TopK::Item& item : list.items()) {
      of_column.push_back({item.number, item.score});
    }
  }
  return tokens;
}

LookupBatches::LookupBatches(const BatchShape& shape) : shape_(shape) {
  for (const model::FeatureMatrix& one : *shape.features) {
    rows_ += static_cast<std::uint64_t>(one.rows.count);
  }
  names_tokens_ =
      shape.settings->tokens_out > 0 && shape.output >= 0 &&
      model::undecodable_text(shape.index->matrices[static_cast<std::size_t>(shape.output)])
          .empty();
}

/// Lists of `count` things of `most` items, one for the whole and one a worker.
std::uint64_t LookupBatches::list_bytes(std::uint64_t count, std::uint64_t most) const {
  return count * (most * sizeof(TopK::Item) + sizeof(TopK)) *
         (static_cast<std::uint64_t>(shape_.threads) + 1);
}

BatchMemory LookupBatches::memory(std::size_t queries) const {
  constexpr std::uint64_t kOfQuery = sizeof(QueryResult) + sizeof(Query) + 256;
  constexpr std::uint64_t kOfKey = 2 * sizeof(ListedFeature) + 128;
  const std::uint64_t width = static_cast<std::uint64_t>(shape_.width) * sizeof(float);
  const std::uint64_t lists = queries * list_count(shape_.settings->order);
  const std::uint64_t top = std::min(static_cast<std::uint64_t>(shape_.settings->top), rows_);
  const auto named = static_cast<std::uint64_t>(shape_.settings->tokens_out);
  const std::uint64_t keys = std::min(lists * top, rows_);
  const std::uint64_t answers =
      queries * kOfQuery +
      lists * (sizeof(FeatureList) + top * (sizeof(FoundFeature) + named * sizeof(TokenScore)));
  BatchMemory memory;
  memory.search = queries * 2 * width + list_bytes(lists, top) + answers;
  // Columns as read, and again as queries of the output embedding.
  memory.describe = keys * (2 * width + kOfKey) + list_bytes(keys, named) + answers;
  memory.search_work =
      search_workspace(*shape_.index, *shape_.features, static_cast<std::int64_t>(queries));
  if (names_tokens_) {
    memory.describe_work =
        search_workspace(shape_.index->matrices[static_cast<std::size_t>(shape_.output)],
                         static_cast<std::int64_t>(keys));
  }
  return memory;
}

/// Of so many queries products take the time and not reading: a larger batch would cost memory and
/// save nothing. Of small ones more are taken, since a pass has a cost of its own.
constexpr std::size_t kEnoughQueries = 4096;
constexpr std::uint64_t kEnoughBytes = 64U << 20U;

std::size_t LookupBatches::size() const {
  const std::uint64_t budget = shape_.settings->ram_budget;
  const auto held = [](const BatchMemory& memory) {
    return std::max(memory.search, memory.describe);
  };
  const auto work = [&](const BatchMemory& memory) {
    return static_cast<std::uint64_t>(shape_.threads) *
           std::max(memory.search_work, memory.describe_work);
  };
  const BatchMemory few = memory(kEnoughQueries);
  const std::uint64_t enough = std::max(kEnoughBytes, held(few) + work(few));
  const auto fits = [&](std::size_t queries) {
    const BatchMemory needed = memory(queries);
    return held(needed) <= budget / 2 && work(needed) <= budget / 4 &&
           held(needed) + work(needed) <= enough;
  };
  const std::size_t all = shape_.settings->requests.size();
  if (fits(all)) {
    return all;
  }
  std::size_t some = 1;
  for (std::size_t too_many = all; too_many - some > 1;) {
    const std::size_t middle = some + (too_many - some) / 2;
    (fits(middle) ? some : too_many) = middle;
  }
  // Batches of one size: the last is no smaller than it must be.
  const std::size_t passes = (all + some - 1) / some;
  return (all + passes - 1) / passes;
}

}  // namespace vindex::commands
