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
#include "random_draws.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace vindex::measure {
namespace {

constexpr std::uint64_t kKey = 0x6E756C6C73000000;  // any fixed number; the shape is added
constexpr std::int64_t kDrawsTimesSize = 65536;
constexpr std::int64_t kMinDraws = 1024;
constexpr std::int64_t kMaxDraws = 16384;

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

static_assert(kMinComputedNull - 1 <= static_cast<std::int64_t>(BidiagonalDraws::kMaxSize));

}  // namespace

MetricValues drawn_nulls(std::int64_t p, std::int64_t n) {
  expects(p >= 2 && p <= n && p < kMinComputedNull, "drawn_nulls: a short side from 2 to 63");
  const std::int64_t draws = std::clamp(kDrawsTimesSize / p, kMinDraws, kMaxDraws);
  const std::uint64_t key =
      kKey ^ (static_cast<std::uint64_t>(n) * 64U + static_cast<std::uint64_t>(p));
  MetricValues sums;
  sums.var_at_k.fill(0.0);
  sums.scalar.fill(0.0);
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
    find_squared_values(group);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      for (std::size_t i = 0; i < size; ++i) {
        sigma[i] = group.squares[i][lane];
      }
      std::sort(sigma.begin(), sigma.end(), std::greater<>());
      for (double& value : sigma) {
        value = std::sqrt(value);
      }
      const MetricValues values = metrics_of_draw(n, sigma);
      for (std::size_t i = 0; i < sums.var_at_k.size(); ++i) {
        sums.var_at_k[i] += values.var_at_k[i];
      }
      for (std::size_t i = 0; i < sums.scalar.size(); ++i) {
        sums.scalar[i] += values.scalar[i];
      }
    }
  }
  const double scale = 1.0 / static_cast<double>(draws);
  for (double& sum : sums.var_at_k) {
    sum = std::min(1.0, sum * scale);
  }
  for (double& sum : sums.scalar) {
    sum *= scale;
  }
  if (p == n) {  // the mean is infinite
    sums[Metric::kConditionNumber] = std::numeric_limits<double>::quiet_NaN();
  }
  return sums;
}

}  // namespace vindex::measure
