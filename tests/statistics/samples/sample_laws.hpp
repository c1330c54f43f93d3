// Owns layers of experts whose figures follow laws that a sample is at a loss with, and how often
// what a sample states of them holds.
#pragma once

#include "statistics/null/finite_sample.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Of figures between 1 and kLawHigh, as an effective rank.
inline constexpr double kLawHigh = 512.0;

struct SampleLaw {
  const char* name = "";
  /// Figures of a layer of `experts`, other ones for every `layer`.
  std::vector<double> (*layer)(std::int64_t experts, std::uint64_t layer) = nullptr;
};
std::span<const SampleLaw> sample_laws();

/// Shares of samples whose 95 % interval holds the figure of the whole, and errors.
struct LawCoverage {
  double mean = 0.0;                    ///< by the ranks and the range
  double student = 0.0;                 ///< Student's, which is not stated any more
  double width = 0.0;                   ///< of the mean's interval over that of Student's, mean
  std::array<double, 3> quantile = {};  ///< quartiles and median; an end without a bound holds
  /// Root mean square of the errors stated over the true one; NaN where none is stated.
  std::array<double, 3> error_ratio = {};
  double mean_error_ratio = 0.0;
};

/// Over `layers` layers of `experts` of `law`, `samples` of n of each.
LawCoverage law_coverage(const SampleLaw& law, std::int64_t n, std::int64_t experts, int layers,
                         int samples);

}  // namespace vindex::statistics
