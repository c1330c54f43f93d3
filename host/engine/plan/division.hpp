// Owns how the rows of a run are divided among processes: shares of about equal cost (the estimate
// of the plan), each of them rows that are stored one behind the other, so that a process reads few
// files and these in sequence. A pure function of the model and the options: every process finds
// the same division without asking the others.
#pragma once

#include "work_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace vindex::engine {

/// Where the bytes of a row begin, for the order of storage. What is made of several places
/// (products) comes last.
struct StoredPlace {
  std::int32_t model = 0;
  std::int32_t shard = 0;
  std::uint64_t offset = 0;
  bool operator<(const StoredPlace& other) const {
    return std::tie(model, shard, offset) < std::tie(other.model, other.shard, other.offset);
  }
};
StoredPlace stored_place(const ModelViews& models, const MatrixRef& matrix);

/// A row with its place and its cost, of which only ratios matter.
struct PlacedRow {
  StoredPlace place;
  double cost = 0.0;
};

/// Which of `share_count` shares each of `rows` is in. Sorted by place (rows of one place in their
/// order), share numbers ascend; a share costs at most the mean and the dearest row together.
std::vector<std::int32_t> equal_shares(const std::vector<PlacedRow>& rows,
                                       std::int32_t share_count);

/// The same of the rows 0 .. row_count-1 of a job, of which `works` are those that cost something;
/// the others are dealt out one by one.
std::vector<std::int32_t> divide_rows(const ModelViews& models, const std::vector<RowWork>& works,
                                      std::int64_t row_count, std::int32_t share_count);

/// Brings `works` into the order of their shares, by `owners` of their rows, and gives them kinds
/// by which no unit is of two shares.
void keep_shares_apart(std::vector<RowWork>& works, const std::vector<std::int32_t>& owners);

/// Shares of a run of `row_count` rows, `works` those that cost something, whose processes claim
/// them one by one: so many that the last ones to finish keep nobody waiting for long, so few that
/// claiming costs nothing beside the work and a device has batches.
std::int32_t claimed_shares(const std::vector<RowWork>& works, std::size_t row_count);

}  // namespace vindex::engine
