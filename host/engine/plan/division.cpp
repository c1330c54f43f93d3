// Owns the cut: at equal steps of the cumulative cost, a row to the share that its middle is in.
#include "division.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::engine {

StoredPlace stored_place(const ModelViews& models, const MatrixRef& matrix) {
  const model::MatrixRecord& record = record_of(models, matrix);
  StoredPlace place{.model = matrix.model, .offset = record.codes.offset};
  place.shard =
      record.product != nullptr
          ? std::numeric_limits<std::int32_t>::max()
          : files_of(models, matrix).tensors[static_cast<std::size_t>(record.codes.tensor)].shard;
  return place;
}

std::vector<std::int32_t> equal_shares(const std::vector<PlacedRow>& rows,
                                       std::int32_t share_count) {
  expects(share_count >= 1, "a share at least");
  // Whole numbers, so that sums are exact and the same in every process: a millionth of the dearest
  // row. Two million rows, in as many shares at most, stay below 2^64.
  constexpr double kDearest = 1U << 20U;
  const std::uint64_t cuts = std::min<std::uint64_t>(static_cast<std::uint64_t>(share_count),
                                                     std::max<std::size_t>(rows.size(), 1));
  double dearest = 0.0;
  for (const PlacedRow& row : rows) {
    dearest = std::max(dearest, row.cost);
  }
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a].place < rows[b].place; });
  std::vector<std::uint64_t> weights(rows.size(), 1);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (dearest > 0.0 && rows[i].cost > 0.0) {
      weights[i] += static_cast<std::uint64_t>(std::llround(rows[i].cost / dearest * kDearest));
    }
    total += weights[i];
  }
  std::vector<std::int32_t> shares(rows.size());
  std::uint64_t before = 0;
  for (const std::size_t i : order) {
    const std::uint64_t middle = 2 * before + weights[i];  // in halves
    shares[i] = static_cast<std::int32_t>(middle * cuts / (2 * total));
    before += weights[i];
  }
  return shares;
}

std::vector<std::int32_t> divide_rows(const ModelViews& models, const std::vector<RowWork>& works,
                                      std::int64_t row_count, std::int32_t share_count) {
  std::vector<PlacedRow> placed;
  placed.reserve(works.size());
  for (const RowWork& work : works) {
    const StoredPlace place =
        work.matrices.empty() ? StoredPlace() : stored_place(models, work.matrices.front());
    placed.push_back({place, work.cost});
  }
  const std::vector<std::int32_t> of_works = equal_shares(placed, share_count);
  std::vector<std::int32_t> shares(static_cast<std::size_t>(row_count), -1);
  for (std::size_t i = 0; i < works.size(); ++i) {
    shares[static_cast<std::size_t>(works[i].row)] = of_works[i];
  }
  for (std::size_t row = 0; row < shares.size(); ++row) {
    if (shares[row] < 0) {
      shares[row] = static_cast<std::int32_t>(row % static_cast<std::size_t>(share_count));
    }
  }
  return shares;
}

void keep_shares_apart(std::vector<RowWork>& works, const std::vector<std::int32_t>& owners) {
  const auto share_of = [&](const RowWork& work) {
    return static_cast<std::uint64_t>(owners[static_cast<std::size_t>(work.row)]);
  };
  std::stable_sort(works.begin(), works.end(),
                   [&](const RowWork& a, const RowWork& b) { return share_of(a) < share_of(b); });
  std::uint64_t kinds = 0;
  for (const RowWork& work : works) {
    kinds = std::max(kinds, work.kind);
  }
  for (RowWork& work : works) {
    work.kind = work.kind == 0 ? 0 : share_of(work) * kinds + work.kind;
  }
}

std::int32_t claimed_shares(const std::vector<RowWork>& works, std::size_t row_count) {
  constexpr std::size_t kMost = 512;
  // A share takes a lock, a part and a record, each written through: some 30 ms. This much work
  // takes longer on any processor.
  constexpr double kCostOfShare = 2e9;
  constexpr double kBytesOfShare = 64 << 20;
  // Where the work is less, several processes may still share it.
  constexpr std::size_t kFewest = 8;
  double cost = 0.0;
  double bytes = 0.0;
  for (const RowWork& work : works) {
    cost += work.cost;
    bytes += static_cast<double>(work.read_bytes);
  }
  const double worth = std::max(cost / kCostOfShare, bytes / kBytesOfShare);
  const auto wanted = static_cast<std::size_t>(std::min(worth, static_cast<double>(kMost)));
  const std::size_t shares = std::min(row_count, std::clamp(wanted, kFewest, kMost));
  // Two at least: workers of one count go together, but for the count 1, a single run's.
  return static_cast<std::int32_t>(std::max<std::size_t>(shares, 2));
}

}  // namespace vindex::engine
