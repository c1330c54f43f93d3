// Owns the laws themselves, and the counting of how often an interval holds the truth.
#include "sample_laws.hpp"

#include "statistics/samples/quantile.hpp"
#include "statistics/samples/random_draws.hpp"
#include "statistics/samples/student.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace vindex::statistics {

namespace {

constexpr std::uint64_t kLawKey = 0x6C617773;

/// Normal figures, the first `extremes` of them far off.
std::vector<double> normal_layer(std::int64_t experts, std::uint64_t layer, std::int64_t extremes) {
  DrawStream draws(kLawKey, layer);
  std::vector<double> out;
  for (std::int64_t i = 0; i < experts; ++i) {
    out.push_back(i < extremes ? 400.0 : 60.0 + 3.0 * draws.normal());
  }
  return out;
}

constexpr std::array<SampleLaw, 7> kSampleLaws = {{
    {"normal", [](std::int64_t n, std::uint64_t layer) { return normal_layer(n, layer, 0); }},
    {"normal, one extreme",
     [](std::int64_t n, std::uint64_t layer) { return normal_layer(n, layer, 1); }},
    {"normal, three extreme",
     [](std::int64_t n, std::uint64_t layer) { return normal_layer(n, layer, 3); }},
    {"Pareto 1.5",
     [](std::int64_t n, std::uint64_t layer) {
       DrawStream draws(kLawKey, layer);
       std::vector<double> out(static_cast<std::size_t>(n));
       for (double& value : out) {
         value = std::min(kLawHigh, std::pow(draws.uniform(), -1.0 / 1.5));
       }
       return out;
     }},
    {"lognormal, sd 1",
     [](std::int64_t n, std::uint64_t layer) {
       DrawStream draws(kLawKey, layer);
       std::vector<double> out(static_cast<std::size_t>(n));
       for (double& value : out) {
         value = std::clamp(20.0 * std::exp(draws.normal()), 1.0, kLawHigh);
       }
       return out;
     }},
    {"two kinds, half each",
     [](std::int64_t n, std::uint64_t layer) {
       DrawStream draws(kLawKey, layer);
       std::vector<double> out;
       for (std::int64_t i = 0; i < n; ++i) {
         out.push_back((2 * i < n ? 40.0 : 80.0) + draws.normal());
       }
       return out;
     }},
    {"two kinds, one in ten",
     [](std::int64_t n, std::uint64_t layer) {
       DrawStream draws(kLawKey, layer);
       std::vector<double> out;
       for (std::int64_t i = 0; i < n; ++i) {
         out.push_back((10 * i < n ? 200.0 : 80.0) + draws.normal());
       }
       return out;
     }},
}};

struct MeanSquares {
  double stated = 0.0, true_square = 0.0;
  void add(double error, double away) {
    stated += error * error;
    true_square += away * away;
  }
  double ratio() const { return std::sqrt(stated / true_square); }
};

bool holds(const Estimate& estimate, double truth) {
  return !(estimate.low > truth) && !(estimate.high < truth);
}

}  // namespace

std::span<const SampleLaw> sample_laws() { return kSampleLaws; }

LawCoverage law_coverage(const SampleLaw& law, std::int64_t n, std::int64_t experts, int layers,
                         int samples) {
  constexpr std::array<double, 3> kPlaces = {0.25, 0.5, 0.75};
  LawCoverage out;
  MeanSquares of_mean;
  std::array<MeanSquares, 3> of_quantile;
  const double part = 1.0 / (static_cast<double>(layers) * samples);
  for (int layer = 0; layer < layers; ++layer) {
    std::vector<double> all = law.layer(experts, static_cast<std::uint64_t>(layer));
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(experts);
    std::array<double, 3> truths = {};
    for (std::size_t q = 0; q < kPlaces.size(); ++q) {
      truths[q] = quantile(all, kPlaces[q]);
    }
    DrawStream draws(kLawKey + 1, static_cast<std::uint64_t>(layer));
    for (int one = 0; one < samples; ++one) {
      for (std::int64_t i = 0; i < n; ++i) {  // Fisher and Yates, from the front
        std::swap(all[static_cast<std::size_t>(i)],
                  all[static_cast<std::size_t>(i) +
                      draws.below(static_cast<std::uint64_t>(experts - i))]);
      }
      const std::span<const double> sample(all.data(), static_cast<std::size_t>(n));
      const Estimate of = estimate_mean(sample, experts - n, {.low = 1.0, .high = kLawHigh});
      const double reach = student_quantile(static_cast<double>(n - 1)) * of.error;
      out.mean += holds(of, mean) ? part : 0.0;
      out.student += std::abs(of.value - mean) <= reach ? part : 0.0;
      out.width += reach > 0.0 ? part * (of.high - of.low) / (2.0 * reach) : 0.0;
      of_mean.add(of.error, of.value - mean);
      for (std::size_t q = 0; q < kPlaces.size(); ++q) {
        const Estimate place = estimate_quantile(sample, kPlaces[q], experts - n);
        out.quantile[q] += holds(place, truths[q]) ? part : 0.0;
        of_quantile[q].add(place.error, place.value - truths[q]);
      }
    }
  }
  out.mean_error_ratio = of_mean.ratio();
  for (std::size_t q = 0; q < kPlaces.size(); ++q) {
    out.error_ratio[q] = of_quantile[q].ratio();
  }
  return out;
}

}  // namespace vindex::statistics
