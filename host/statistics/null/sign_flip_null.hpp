// Owns the sign-flip null of one spectrum (metrics contract): what a back end keeps of every draw,
// and the spread of the draws beside the plain value. A draw is reduced where it is found, so that
// a thousand of them take a hundred kilobytes and not a spectrum each.
#pragma once

#include "backend/sign_flip_draws.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace vindex {
enum class SpectrumMode : std::uint8_t;
}

namespace vindex::statistics {

struct MetricValues;

/// Draws from which on z and its p are of use: of 5 draws a p of 0.01 takes a z of 4.6.
inline constexpr std::int32_t kRecommendedSignFlipDraws = 10;
/// Draws that may be asked for.
inline constexpr std::int32_t kMaxSignFlipDraws = 1000;

/// "none", "signflip" for one draw, "signflip=R" for more: what the command line and the file say.
std::string null_name(std::int32_t sign_flip_draws);

/// Takes the spectra of a matrix's draws. One for a shape and mode; immutable.
class SignFlipCollector {
 public:
  SignFlipCollector(std::int64_t rows, std::int64_t cols, SpectrumMode mode);
  /// Adds the next draw. `sigma`: descending, min(rows, cols) values or, in fast mode, at least the
  /// top 64 of them; empty where it was not found. `norm_squared`: F2 of the weights, which no sign
  /// changes. Cost: one logarithm per value.
  void add(std::vector<double> sigma, double norm_squared, SignFlipNull& into) const;

 private:
  double p_ = 0.0;
  bool fast_ = false;
  double outlier_per_median_ = 0.0;  // threshold of mp_outliers over the median of sigma^2
};

/// A value against the draws.
struct SignFlipSpread {
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double mean = kNaN;
  double std = kNaN;  ///< of the draws, with R - 1 in the denominator; NaN for one draw
  /// (value - mean) / (std sqrt(1 + 1/R)): were the value one more draw of a normal law, this would
  /// have Student's distribution with R - 1 degrees of freedom. NaN for one draw, and where the
  /// draws do not differ.
  double z = kNaN;
  double p = kNaN;  ///< of so large a z or a larger one, on either side, by that distribution
};

/// What a row keeps of its draws.
struct SignFlipSummary {
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::array<double, kVarAtK.size()> var_at_k;  ///< of draw 0
  /// Root of the Jensen-Shannon divergence (natural logarithm) between the eigenvalues of the
  /// matrix and of draw 0, each over its sum, largest with largest: WeightWatcher's rand_distance
  /// (RMT_Util.py). NaN in fast mode.
  double rand_distance = kNaN;
  std::array<SignFlipSpread, kVarAtK.size()> var_at_k_spread;
  SignFlipSpread stable_rank, effective_rank, mp_outliers;
  SignFlipSummary() { var_at_k.fill(kNaN); }
};

/// `values` and `sigma` are those of the plain matrix of `p` singular values. A NaN among the draws
/// makes their mean NaN.
SignFlipSummary summarise_sign_flips(const SignFlipNull& null, const MetricValues& values,
                                     std::span<const double> sigma, std::int64_t p);

}  // namespace vindex::statistics
