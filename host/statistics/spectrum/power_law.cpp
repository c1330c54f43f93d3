// Owns the search for the x_min of least distance D (power_law.hpp: Clauset, Shalizi and Newman
// 2009). With m values from x_min up and y = ln(x / x_min) ascending from 0,
//
//   alpha - 1 = m / sum y_j,    D = max over j of |1 - exp(-(alpha - 1) y_j) - j / m|
//
// Both terms rise with j. So between two places a < b where the model is known, |model - j / m| is
// at most max(model_b - (a + 1) / m, (b - 1) / m - model_a), and a range whose bound is below the
// greatest distance found so far needs no look: D takes some tens of exponentials in place of m. A
// candidate is given up as soon as its distance exceeds the best D; candidates spread over the
// range come first, so that the best is good early. The result is that of the full search: bounds
// are relaxed by kSlack.
//
// Why not fewer candidates, as some tools take: D has many near-equal minima over a smooth
// spectrum, and alpha would hang on which were looked at.
#include "power_law.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vindex::statistics {
namespace {

// Bounds from monotony are relaxed by this much: exp is monotone only to its last bit.
constexpr double kSlack = 1e-14;
constexpr std::size_t kFirstRanges = 8;
constexpr std::size_t kCoarseCandidates = 64;

// Distances of candidates; values are ascending logarithms relative to the largest.
class Candidates {
 public:
  Candidates(std::span<const double> log_descending, std::size_t count)
      : log_(count), tail_sum_(count) {
    double sum = 0.0;
    for (std::size_t i = count; i-- > 0;) {
      log_[i] = log_descending[count - 1 - i] - log_descending[0];
      sum += log_[i];
      tail_sum_[i] = sum;
    }
  }

  std::size_t tail(std::size_t candidate) const { return log_.size() - candidate; }

  // alpha - 1, or a value that is not positive and finite where there is none
  double slope(std::size_t candidate) const {
    const auto m = static_cast<double>(tail(candidate));
    return log_[candidate] < 0.0 ? m / (tail_sum_[candidate] - m * log_[candidate]) : 0.0;
  }

  // D of the candidate if it does not exceed `limit`, else some number above `limit`.
  double distance(std::size_t candidate, double limit);

 private:
  struct TailRange {
    std::size_t first, last;
    double first_value, last_value;
  };

  std::vector<double> log_, tail_sum_;
  double likely_ = 0.5;  // where in its tail the last candidate was farthest off
};

double Candidates::distance(std::size_t candidate, double limit) {
  const std::size_t m = tail(candidate);
  const double scale = -slope(candidate);
  const double unit = 1.0 / static_cast<double>(m);
  const double* log = log_.data() + candidate;
  double greatest = 0.0;
  std::size_t where = 0;
  const auto model_at = [&](std::size_t j) {
    const double value = 1.0 - std::exp(scale * (log[j] - log[0]));
    const double off = std::abs(value - static_cast<double>(j) / static_cast<double>(m));
    if (off > greatest) {
      greatest = off;
      where = j;
    }
    return value;
  };
  const std::size_t top = m - 1;
  model_at(static_cast<std::size_t>(likely_ * static_cast<double>(top)));
  if (greatest > limit) {
    return greatest;
  }

  // Depth first: each level leaves at most one range waiting beside the first ones.
  std::array<TailRange, kFirstRanges + 64> waiting;
  std::size_t waiting_count = 0;
  TailRange range{0, 0, model_at(0), 0.0};
  for (std::size_t k = 1; k <= kFirstRanges; ++k) {
    range.last = top * k / kFirstRanges;
    if (range.last == range.first) {
      continue;
    }
    range.last_value = model_at(range.last);
    waiting[waiting_count++] = range;
    range.first = range.last;
    range.first_value = range.last_value;
  }
  while (waiting_count > 0 && greatest <= limit) {
    range = waiting[--waiting_count];
    if (range.last - range.first < 2) {
      continue;
    }
    // Both rise, so no place inside is further off than these.
    const double over = range.last_value - static_cast<double>(range.first + 1) * unit;
    const double under = static_cast<double>(range.last - 1) * unit - range.first_value;
    if (std::max(over, under) + kSlack < greatest) {
      continue;
    }
    const std::size_t middle = range.first + (range.last - range.first) / 2;
    const double middle_value = model_at(middle);
    waiting[waiting_count++] = {range.first, middle, range.first_value, middle_value};
    waiting[waiting_count++] = {middle, range.last, middle_value, range.last_value};
  }
  likely_ = top == 0 ? 0.5 : static_cast<double>(where) / static_cast<double>(top);
  return greatest;
}

}  // namespace

PowerLawFit fit_power_law(std::span<const double> descending,
                          std::span<const double> log_descending) {
  expects(descending.size() == log_descending.size(), "fit_power_law: a logarithm per value");
  const auto end = std::find_if(descending.begin(), descending.end(),
                                [](double value) { return !(value > 0.0); });
  const auto count = static_cast<std::size_t>(end - descending.begin());
  PowerLawFit fit;
  if (count < 2) {
    return fit;
  }
  Candidates candidates(log_descending, count);
  double best = std::numeric_limits<double>::infinity();
  std::size_t best_at = count;
  const auto consider = [&](std::size_t candidate) {
    if (!(candidates.slope(candidate) > 0.0)) {
      return;
    }
    const double distance = candidates.distance(candidate, best);
    if (distance < best || (distance == best && candidate < best_at)) {
      best = distance;
      best_at = candidate;
    }
  };
  // A good value first makes the sweep over all candidates reject nearly all of them at once.
  const std::size_t last = count - 1;
  const std::size_t step = std::max<std::size_t>(1, last / kCoarseCandidates);
  for (std::size_t candidate = 0; candidate < last; candidate += step) {
    consider(candidate);
  }
  const std::size_t middle = std::min(best_at, last);
  for (std::size_t candidate = middle - std::min(middle, step);
       candidate < std::min(last, middle + step); ++candidate) {
    consider(candidate);
  }
  for (std::size_t candidate = 0; candidate < last; ++candidate) {
    consider(candidate);
  }
  if (best_at == count) {
    return fit;
  }
  fit.alpha = 1.0 + candidates.slope(best_at);
  fit.xmin = descending[count - 1 - best_at];
  fit.ks = best;
  fit.tail = static_cast<double>(candidates.tail(best_at));
  return fit;
}

}  // namespace vindex::statistics
