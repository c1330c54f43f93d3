// Owns the trend of a value's neighbours, the limits made of it, and the rounds in which breaks are
// found.
#include "stages.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/robust_scale.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::statistics {

namespace {

constexpr std::size_t kSideValues = 3;
constexpr double kDeviations = 3.0;
/// Times the rise between the two values next to an end that the end itself may lie below them.
constexpr double kRises = 3.0;

/// What a value is judged by.
struct Level {
  double low = kNaN;       ///< level_i of the head of stages.hpp
  double deviation = 0.0;  ///< of the value from its neighbours
  double error = 0.0;      ///< of the value, and at an end of its level
};

class Trend {
 public:
  Trend(const std::vector<Adjacent>& adjacent, const std::vector<std::size_t>& breaks)
      : adjacent_(adjacent), breaks_(breaks) {}

  /// `first_round`: see MAD of the head of stages.hpp.
  Level at(std::size_t i, bool first_round) const {
    const std::vector<Adjacent> left = side(i, -1);
    const std::vector<Adjacent> right = side(i, 1);
    if (left.empty() || right.empty()) {
      return end(i, left.empty() ? right : left);
    }
    const double before = median_of(left);
    const double behind = median_of(right);
    const double value = adjacent_[i].value;
    const double nearer = std::min(std::abs(value - before), std::abs(value - behind));
    return {.low = std::min(before, behind),
            .deviation = first_round ? nearer : std::abs(value - 0.5 * (before + behind)),
            .error = adjacent_[i].error};
  }

 private:
  /// The nearest values on one side that are no breaks, nearest first.
  std::vector<Adjacent> side(std::size_t i, std::ptrdiff_t step) const {
    std::vector<Adjacent> out;
    const auto count = static_cast<std::ptrdiff_t>(adjacent_.size());
    for (auto at = static_cast<std::ptrdiff_t>(i) + step;
         at >= 0 && at < count && out.size() < kSideValues; at += step) {
      const auto place = static_cast<std::size_t>(at);
      if (!std::binary_search(breaks_.begin(), breaks_.end(), place)) {
        out.push_back(adjacent_[place]);
      }
    }
    return out;
  }

  static double median_of(const std::vector<Adjacent>& some) {
    std::vector<double> values;
    for (const Adjacent& one : some) {
      values.push_back(one.value);
    }
    return quantile(std::move(values), 0.5);
  }

  Level end(std::size_t i, const std::vector<Adjacent>& side) const {
    if (side.size() < 2) {
      return {};
    }
    const double median = median_of(side);
    const double rise = std::max(0.0, side[1].value - side[0].value);
    return {.low = std::min(median, side[0].value) - kRises * rise,
            .deviation = std::abs(adjacent_[i].value - median),
            .error = std::hypot(adjacent_[i].error, (1.0 + kRises) * side[0].error,
                                kRises * side[1].error)};
  }

  const std::vector<Adjacent>& adjacent_;
  const std::vector<std::size_t>& breaks_;
};

/// One round: limits, MAD and breaks, beside the breaks of the round before.
void judge_values(const std::vector<Adjacent>& adjacent, bool first_round, Stages& stages) {
  const Trend trend(adjacent, stages.breaks);
  std::vector<Level> levels;
  std::vector<double> deviations;
  for (std::size_t i = 0; i < adjacent.size(); ++i) {
    levels.push_back(trend.at(i, first_round));
    if (!std::binary_search(stages.breaks.begin(), stages.breaks.end(), i)) {
      deviations.push_back(levels.back().deviation);
    }
  }
  stages.mad = quantile(std::move(deviations), 0.5);
  stages.limits.clear();
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < adjacent.size(); ++i) {
    stages.limits.push_back(levels[i].low -
                            kDeviations * std::max(kOfMad * stages.mad, levels[i].error));
    if (adjacent[i].value < stages.limits.back()) {
      found.push_back(i);
    }
  }
  stages.breaks = std::move(found);
}

}  // namespace

std::optional<Stages> count_stages(const std::vector<Adjacent>& adjacent) {
  const bool is_known = std::none_of(adjacent.begin(), adjacent.end(), [](const Adjacent& one) {
    return std::isnan(one.value) || std::isnan(one.error);
  });
  if (adjacent.empty() || !is_known) {
    return std::nullopt;
  }
  Stages stages;
  std::vector<double> values;
  for (const Adjacent& one : adjacent) {
    values.push_back(one.value);
  }
  stages.median = quantile(std::move(values), 0.5);
  judge_values(adjacent, true, stages);
  if (!stages.breaks.empty()) {
    judge_values(adjacent, false, stages);
  }
  stages.count = 1 + static_cast<std::int64_t>(stages.breaks.size());
  return stages;
}

}  // namespace vindex::statistics
