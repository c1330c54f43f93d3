#include "draw_weights.hpp"

#include <vindex/measure/cka.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>

namespace vindex::run {

DrawWeights drawn_weights(std::span<const RowRun> groups, std::int64_t draw) {
  DrawWeights weights;
  const std::vector<std::int32_t> counts =
      measure::drawn_counts(static_cast<std::int64_t>(groups.size()), draw);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto size = static_cast<std::size_t>(groups[group].count);
    weights.of_row.insert(weights.of_row.end(), size, static_cast<float>(counts[group]));
    weights.group_of_row.insert(weights.group_of_row.end(), size, groups[group]);
  }
  return weights;
}

double weigh_block(std::span<const float> block, const DrawWeights& weights, RowRun rows,
                   RowRun cols, float* out) {
  const auto width = static_cast<std::size_t>(cols.count);
  const float* const col_weights = weights.of_row.data() + cols.first;
  std::vector<float> factors(width);
  double sum = 0.0;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const auto row = static_cast<std::size_t>(rows.first + i);
    const float weight = weights.of_row[row];
    std::transform(col_weights, col_weights + width, factors.begin(),
                   [&](float other) { return weight * other; });
    const RowRun& group = weights.group_of_row[row];
    for (std::int64_t j = std::max(group.first, cols.first);
         j < std::min(group.first + group.count, cols.first + cols.count); ++j) {
      factors[static_cast<std::size_t>(j - cols.first)] = weight;
    }
    const float* const values = block.data() + static_cast<std::size_t>(i) * width;
    std::transform(factors.begin(), factors.end(), values, factors.begin(), std::multiplies<>());
    sum += float_dot(factors, values);
    if (out != nullptr) {
      std::copy(factors.begin(), factors.end(), out + static_cast<std::size_t>(i) * width);
    }
  }
  return sum;
}

double float_dot(std::span<const float> a, const float* b) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t k = 0;
  for (; k + kLanes <= a.size(); k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[k + lane]) * static_cast<double>(b[k + lane]);
    }
  }
  double rest = 0.0;
  for (; k < a.size(); ++k) {
    rest += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  }
  return std::accumulate(sums.begin(), sums.end(), rest);
}

}  // namespace vindex::run
