// Owns what nulls are drawn from: random numbers of one stream, the same ones in every run, counts
// by chance (draws from the binomial law), chi-squared variables, and tails of the Poisson law.
#pragma once

#include "quantile.hpp"

#include "core/philox.hpp"

#include <cstdint>

namespace vindex::statistics {

class DrawStream {
 public:
  /// `draw` numbers independent streams of one key.
  explicit DrawStream(std::uint64_t key, std::uint64_t draw = 0) : key_(key), draw_(draw) {}

  std::uint32_t word() {
    if (left_ == 0) {
      block_ = philox_block(key_, counter_++, draw_);
      left_ = 4;
    }
    return block_.word[4 - left_--];
  }
  /// 0 .. count-1, count < 2^32; biased by less than count / 2^32.
  std::uint32_t below(std::uint64_t count) {
    return static_cast<std::uint32_t>(word() * count >> 32U);
  }
  /// In (0, 1), 52 bits.
  double uniform() {
    const std::uint64_t high = word();
    return (static_cast<double>((high << 32U | word()) >> 12U) + 0.5) * 0x1p-52;
  }
  double normal() { return normal_quantile(uniform()); }

 private:
  std::uint64_t key_, draw_;
  PhiloxBlock block_{};
  std::uint64_t counter_ = 0;
  int left_ = 0;
};

/// A draw from the binomial law of `trials` trials of chance `chance` (cut to 0 .. 1), exact for
/// any size: inversion while fewer than ten are expected, else rejection (BTRS: Hörmann, "The
/// generation of binomial random variates", J. Statist. Comput. Simul. 46, 1993).
std::int64_t draw_binomial(std::int64_t trials, double chance, DrawStream& draws);

/// A chi-squared variable of `freedom` >= 1 degrees, exact, by acceptance. Source: Marsaglia and
/// Tsang, "A simple method for generating gamma variables" (2000), of gamma(freedom / 2); one
/// degree is a squared normal.
double draw_chi_squared(std::int64_t freedom, DrawStream& stream);

/// Mid-p of a Poisson count (Lancaster 1961): twice the smaller of P(X < count) and P(X > count),
/// each with half of P(X = count), of X Poisson of `mean`. Where the law holds, either side is 1/2
/// on average, as a uniform p is; with all of P(X = count) a count of a few is judged several
/// times too mildly. For means that are small: sums of a few terms. NaN for a mean that is not
/// positive and finite.
double poisson_tail(double count, double mean);

/// ln n!, by Stirling's formula and its rest; n >= 0.
double log_factorial(double n);

}  // namespace vindex::statistics
