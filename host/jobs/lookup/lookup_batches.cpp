// Owns the memory of one query and how many fit the budget.
#include "lookup_batches.hpp"

#include <vindex/model/selection.hpp>

#include <algorithm>

namespace vindex::jobs {

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
  return count * (most * sizeof(BestFew::Item) + sizeof(BestFew)) *
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

std::size_t LookupBatches::size() const {
  const std::uint64_t budget = shape_.settings->ram_budget;
  const auto fits = [&](std::size_t queries) {
    const BatchMemory needed = memory(queries);
    return std::max(needed.search, needed.describe) <= budget / 2 &&
           static_cast<std::uint64_t>(shape_.threads) *
                   std::max(needed.search_work, needed.describe_work) <=
               budget / 4;
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

}  // namespace vindex::jobs
