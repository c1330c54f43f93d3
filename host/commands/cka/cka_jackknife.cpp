// The form of rows.
#include "cka_jackknife.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "statistics/cka/cka.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <stop_token>
#include <utility>

namespace vindex::commands {

namespace {

constexpr std::size_t kMaxJackknifeThreads = 8;  // of thread_count()

/// a_i of one group: sums over its rows of every column outside it, 0 inside, and their sum inside.
struct GroupColumns {
  std::vector<float> outside;
  double inside = 0.0;
};

void sum_columns(const std::vector<float>& block, std::size_t rows, engine::RowRun group,
                 GroupColumns& out) {
  std::vector<double> sums(rows, 0.0);
  for (std::int64_t i = group.first; i < group.first + group.count; ++i) {
    const float* const row = block.data() + as_size(i) * rows;
    std::transform(sums.begin(), sums.end(), row, sums.begin(),
                   [](double sum, float value) { return sum + static_cast<double>(value); });
  }
  const auto first = sums.begin() + group.first;
  out.inside = std::accumulate(first, first + group.count, 0.0);
  std::fill(first, first + group.count, 0.0);
  out.outside.assign(sums.begin(), sums.end());
}

double without_rows(const BlockPair& pair, const GroupColumns& left, const GroupColumns& right,
                    std::size_t rows, engine::RowRun group) {
  const std::size_t count = as_size(group.count);
  const std::size_t begin = as_size(group.first) * rows;
  const double whole =
      float_dot(std::span(*pair.left).subspan(begin, count * rows), pair.right->data() + begin);
  double within = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = begin + i * rows + as_size(group.first);
    within += float_dot(std::span(*pair.left).subspan(at, count), pair.right->data() + at);
  }
  const double outside = float_dot(left.outside, right.outside.data());
  const auto left_over = static_cast<double>(rows - count);
  return pair.product +
         pair.unscale * (within - 2.0 * whole +
                         left.inside * right.inside / ((left_over - 1.0) * (left_over - 2.0)) -
                         2.0 / (left_over - 2.0) * outside);
}

}  // namespace

std::uint64_t products_without_bytes(std::int64_t rows, std::int64_t layers) {
  return kMaxJackknifeThreads *
         (static_cast<std::uint64_t>(layers) * sizeof(float) + sizeof(double)) *
         static_cast<std::uint64_t>(rows);
}

std::vector<ProductsWithout> products_without(std::span<const BlockPair> pairs,
                                              std::span<const engine::RowRun> groups,
                                              const std::stop_token& stop) {
  std::vector<ProductsWithout> out(pairs.size(), ProductsWithout(groups.size(), kNaN));
  const std::int64_t count = groups.empty() ? 0 : groups.back().first + groups.back().count;
  const std::size_t rows = as_size(count);
  std::vector<const std::vector<float>*> blocks;
  for (const BlockPair& pair : pairs) {
    blocks.insert(blocks.end(), {pair.left, pair.right});
  }
  std::sort(blocks.begin(), blocks.end(), std::less<>());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  const auto number = [&](const std::vector<float>* block) {
    return as_size(std::lower_bound(blocks.begin(), blocks.end(), block, std::less<>()) -
                   blocks.begin());
  };
  const std::size_t threads =
      pairs.size() * rows * rows < kThreadedElements
          ? 1
          : std::min(kMaxJackknifeThreads, thread_count(blocks.size() * rows * sizeof(float)));
  std::vector<std::vector<GroupColumns>> of_worker(threads);
  for_each_index(groups.size(), threads, [&](std::size_t worker, std::size_t g) {
    throw_if_stopped(stop);
    if (count - groups[g].count < statistics::kMinCkaRows) {
      return;
    }
    std::vector<GroupColumns>& columns = of_worker[worker];
    columns.resize(blocks.size());
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      sum_columns(*blocks[k], rows, groups[g], columns[k]);
    }
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      out[p][g] = without_rows(pairs[p], columns[number(pairs[p].left)],
                               columns[number(pairs[p].right)], rows, groups[g]);
    }
  });
  return out;
}

}  // namespace vindex::commands
