// Owns draws of the spectrum of small noise. The singular values of p x n standard normals are
// those of an upper bidiagonal matrix of independent chi variables (Dumitriu and Edelman 2002, beta
// = 1):
//
//   diagonal chi_n, chi_(n-1), ..., chi_(n-p+1),    other diagonal chi_(p-1), ..., chi_1
//
// found by dqds on their squares (bidiagonal_draws.hpp).
//
// Why not draw W itself: p n normals and an SVD of p^2 n where this takes 2 p variables and some
// p^2. Why dqds: no subtraction but the shift's, so the smallest value keeps its digits, on which
// condition_number and trace_log hang. chi-squared variables are Marsaglia's and Tsang's (2000), by
// acceptance, in a stream of Philox numbers for each draw, so that a draw is the same whatever came
// before it.
#include "drawn_nulls.hpp"

#include "bidiagonal_draws.hpp"

#include "statistics/samples/random_draws.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace vindex::statistics {
namespace {

constexpr std::uint64_t kKey = 0x6E756C6C73000000;  // any fixed number; the shape is added
constexpr std::int64_t kDrawsTimesSize = 65536;
constexpr std::int64_t kMinDraws = 1024;
constexpr std::int64_t kMaxDraws = 16384;

/// Above this ratio of the sides values crowd around n, and lie within a share of each other that
/// the steps of find_squared_values() take ever longer to tell apart.
constexpr std::int64_t kThin = 256;

/// The squares of one draw.
void fill_lane(std::int64_t p, std::int64_t n, DrawStream stream, std::int64_t lane,
               BidiagonalDraws& group) {
  for (std::int64_t i = 0; i < p; ++i) {
    group.squares[i][lane] = draw_chi_squared(n - i, stream);
    if (i + 1 < p) {
      group.above[i][lane] = draw_chi_squared(p - 1 - i, stream);
    }
  }
}

/// Takes from all values of a lane, by the tridiagonal matrix B B^T, as much as leaves the smallest
/// a share of the largest that steps tell apart at once; returns it. Factors of B B^T - shift are
/// found as qd steps find them, from differences that are known: they err by eps n, while values
/// scatter by the root of n.
double take_off(std::int64_t p, std::int64_t n, std::int64_t lane, BidiagonalDraws& group) {
  std::array<double, BidiagonalDraws::kMaxSize> diagonal = {};
  std::array<double, BidiagonalDraws::kMaxSize> beside = {};  // squares
  const auto mean = static_cast<double>(n);
  double reach = 0.0;  // of the values around n, by Gershgorin's circles
  double before = 0.0;
  for (std::int64_t i = 0; i < p; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double above = i + 1 < p ? group.above[at][lane] : 0.0;
    diagonal[at] = group.squares[at][lane] - mean + above;
    beside[at] = i + 1 < p ? above * group.squares[at + 1][lane] : 0.0;
    const double next = std::sqrt(beside[at]);
    reach = std::max(reach, std::abs(diagonal[at]) + before + next);
    before = next;
  }
  double below = 0.0;  // what the row above takes
  for (std::int64_t i = 0; i < p; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double square = diagonal[at] + 2.0 * reach - below;
    group.squares[at][lane] = square;
    below = beside[at] / square;
    if (i + 1 < p) {
      group.above[at][lane] = below;
    }
  }
  return mean - 2.0 * reach;
}

/// Means and their standard errors. Differences from the first draw are summed: what all draws
/// share takes no digits.
class MeanOfDraws {
 public:
  void add(const MetricValues& values) {
    if (count_ == 0) {
      first_ = values;
    }
    ++count_;
    add_all(values.var_at_k, first_.var_at_k, sums_.var_at_k, squares_.var_at_k);
    add_all(values.scalar, first_.scalar, sums_.scalar, squares_.scalar);
  }
  DrawnNulls nulls() const {
    DrawnNulls out;
    out.draws = count_;
    set_all(first_.var_at_k, sums_.var_at_k, squares_.var_at_k, out.means.var_at_k,
            out.errors.var_at_k);
    set_all(first_.scalar, sums_.scalar, squares_.scalar, out.means.scalar, out.errors.scalar);
    for (double& share : out.means.var_at_k) {
      share = std::min(1.0, share);
    }
    return out;
  }

 private:
  template <typename Values>
  static void add_all(const Values& values, const Values& first, Values& sums, Values& squares) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double away = values[i] - first[i];
      sums[i] += away;
      squares[i] += away * away;
    }
  }
  template <typename Values>
  void set_all(const Values& first, const Values& sums, const Values& squares, Values& means,
               Values& errors) const {
    const auto count = static_cast<double>(count_);
    for (std::size_t i = 0; i < means.size(); ++i) {
      const double away = sums[i] / count;
      means[i] = first[i] + away;
      const double left = squares[i] - sums[i] * away;
      errors[i] = std::isnan(left) ? left : std::sqrt(std::max(0.0, left) / (count - 1.0) / count);
    }
  }

  std::int64_t count_ = 0;
  MetricValues first_;
  MetricValues sums_ = zeros(), squares_ = zeros();
  static MetricValues zeros() {
    MetricValues none;
    none.var_at_k.fill(0.0);
    none.scalar.fill(0.0);
    return none;
  }
};

static_assert(kMinComputedNull - 1 <= static_cast<std::int64_t>(BidiagonalDraws::kMaxSize));

}  // namespace

DrawnNulls drawn_nulls(std::int64_t p, std::int64_t n) {
  expects(p >= 2 && p <= n && p < kMinComputedNull, "drawn_nulls: a short side from 2 to 63");
  const std::int64_t draws = std::clamp(kDrawsTimesSize / p, kMinDraws, kMaxDraws);
  const std::uint64_t key =
      kKey ^ (static_cast<std::uint64_t>(n) * 64U + static_cast<std::uint64_t>(p));
  MeanOfDraws means;
  const auto size = static_cast<std::size_t>(p);
  constexpr auto kLanes = static_cast<std::int64_t>(BidiagonalDraws::kLanes);
  std::vector<double> sigma(size);
  for (std::int64_t first = 0; first < draws; first += kLanes) {
    const std::int64_t lanes = std::min(kLanes, draws - first);
    BidiagonalDraws group{.size = size};
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      // Lanes to spare repeat the last draw.
      const std::int64_t draw = first + std::min(lane, lanes - 1);
      fill_lane(p, n, DrawStream(key, static_cast<std::uint64_t>(draw)), lane, group);
    }
    std::array<double, BidiagonalDraws::kLanes> taken = {};
    for (std::int64_t lane = 0; n >= kThin * p && lane < kLanes; ++lane) {
      taken[static_cast<std::size_t>(lane)] = take_off(p, n, lane, group);
    }
    find_squared_values(group);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      for (std::size_t i = 0; i < size; ++i) {
        sigma[i] = group.squares[i][lane] + taken[static_cast<std::size_t>(lane)];
      }
      std::sort(sigma.begin(), sigma.end(), std::greater<>());
      for (double& value : sigma) {
        value = std::sqrt(value);
      }
      means.add(metrics_of_draw(n, sigma));
    }
  }
  DrawnNulls nulls = means.nulls();
  if (p == n) {  // the mean is infinite
    nulls.means[Metric::kConditionNumber] = std::numeric_limits<double>::quiet_NaN();
    nulls.errors[Metric::kConditionNumber] = std::numeric_limits<double>::quiet_NaN();
  }
  return nulls;
}

}  // namespace vindex::statistics
