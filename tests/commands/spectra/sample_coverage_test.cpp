// Whether what a sample states of the whole holds: 2,000 draws from the figures of every expert of
// the real mixture and of synthetic ones, measured here.
#include "model/experts/expert_sample.hpp"
#include "results/reading/query.hpp"
#include "statistics/layers/layer_statistics.hpp"
#include "statistics/null/finite_sample.hpp"
#include "statistics/samples/quantile.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

namespace vindex::sample_coverage_test {
namespace {

constexpr int kDraws = 2000;
/// Three standard deviations of a share of 0.95 over as many draws.
const double kBand = 3.0 * std::sqrt(0.95 * 0.05 / kDraws);

/// One metric of the routed experts of one layer and role, by expert.
struct Figures {
  std::int32_t layer = -1;
  std::string role, metric;
  statistics::ValueRange range;
  std::vector<double> values;
};

/// What of the draws held.
struct Coverage {
  double mean = 0.0;                    ///< share of intervals of the mean that hold it
  std::array<double, 3> quantile = {};  ///< the same of the quartiles and the median
  double bias = 0.0;                    ///< of the mean, in standard errors of that of all draws
  double error_ratio = 0.0;             ///< root mean square of standard errors over true error
  std::array<double, 3> quantile_error_ratio = {};
};

constexpr std::array<double, 3> kQuantiles = {0.25, 0.5, 0.75};

/// Mean square of what is said and of what is.
struct Errors {
  double stated = 0.0, true_square = 0.0, sum = 0.0;
  void add(double error, double away) {
    stated += error * error;
    true_square += away * away;
    sum += away;
  }
  double ratio() const { return std::sqrt(stated / true_square); }
};

Coverage coverage_of(const Figures& figures, std::size_t n) {
  const std::vector<double>& all = figures.values;
  const auto untried = static_cast<std::int64_t>(all.size() - n);
  const double mean =
      std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  Coverage out;
  Errors of_mean;
  std::array<Errors, 3> of_quantile;
  for (int seed = 0; seed < kDraws; ++seed) {
    const std::vector<std::int32_t> order = model::drawn_order(
        static_cast<std::uint64_t>(seed), figures.layer, model::Block::kRoutedExpert, figures.role,
        static_cast<std::int32_t>(all.size()));
    std::vector<double> sample;
    for (const std::int32_t place : std::span(order).first(n)) {
      sample.push_back(all[static_cast<std::size_t>(place)]);
    }
    const statistics::Estimate estimate = statistics::estimate_mean(sample, untried, figures.range);
    // An end without a bound excludes nothing.
    out.mean += !(estimate.low > mean) && !(estimate.high < mean) ? 1.0 / kDraws : 0.0;
    of_mean.add(estimate.error, estimate.value - mean);
    for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
      const double truth = statistics::quantile(all, kQuantiles[q]);
      const statistics::Estimate of = statistics::estimate_quantile(sample, kQuantiles[q], untried);
      out.quantile[q] += !(of.low > truth) && !(of.high < truth) ? 1.0 / kDraws : 0.0;
      of_quantile[q].add(of.error, of.value - truth);
    }
  }
  out.bias = of_mean.sum / std::sqrt(of_mean.true_square);
  out.error_ratio = of_mean.ratio();
  for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
    out.quantile_error_ratio[q] = of_quantile[q].ratio();
  }
  return out;
}

class SampleCoverageTest : public testing::ProgramTest {
 protected:
  /// Of every layer and role of `model` the figures of its routed experts.
  std::vector<Figures> figures_of(const std::string& model) {
    const results::ResultsFile file(
        measured(model, "all", {"--blocks", "routed_expert", "--no-spectra", "--backend", "cpu"}));
    std::vector<std::int64_t> numbers;
    const std::vector<results::QueriedRow> rows = file.rows();
    for (const results::QueriedRow& row : rows) {
      numbers.push_back(row.number);
    }
    std::map<std::tuple<std::int32_t, std::string, std::string>, std::vector<double>> groups;
    std::map<std::tuple<std::int32_t, std::string, std::string>, statistics::ValueRange> ranges;
    using statistics::LayerMetric;
    for (const LayerMetric of :
         {LayerMetric::kStableRank, LayerMetric::kEffectiveRank, LayerMetric::kSigmaRatio12}) {
      const std::string metric(statistics::layer_metric_name(of));
      const std::vector<double> values = file.numbers(metric, numbers);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::tuple key(rows[i].layer, rows[i].role, metric);
        groups[key].push_back(values[i]);
        ranges[key] = statistics::layer_metric_range(of, std::min(rows[i].rows, rows[i].cols), 1.0);
      }
    }
    std::vector<Figures> out;
    for (const auto& [key, values] : groups) {
      const auto& [layer, role, metric] = key;
      out.push_back({layer, role, metric, ranges[key], values});
    }
    return out;
  }

  /// Holds what is asserted of every kind of mixture. `n` of each group.
  static void expect_coverage(const std::vector<Figures>& all, std::size_t n) {
    ASSERT_FALSE(all.empty());
    double least = 1.0;
    double least_quantile = 1.0;
    for (const Figures& figures : all) {
      const Coverage coverage = coverage_of(figures, n);
      SCOPED_TRACE(::testing::Message()
                   << figures.layer << " " << figures.role << " " << figures.metric << ", " << n
                   << " of " << figures.values.size() << ": mean " << coverage.mean);
      EXPECT_GE(coverage.mean, 0.95 - kBand);
      least = std::min(least, coverage.mean);
      least_quantile = std::min(
          least_quantile, *std::min_element(coverage.quantile.begin(), coverage.quantile.end()));
      // Four standard errors of an unbiased mean.
      EXPECT_LT(std::abs(coverage.bias), 4.0);
      EXPECT_NEAR(coverage.error_ratio, 1.0, 0.1);
      for (std::size_t q = 0; q < kQuantiles.size(); ++q) {
        EXPECT_GE(coverage.quantile[q], 0.95 - kBand) << kQuantiles[q];
      }
    }
    // A row of docs/measuring/sampling.md.
    std::cout << n << " of " << all.front().values.size() << " | " << least << " | "
              << least_quantile << "\n";
  }
};

TEST_F(SampleCoverageTest, OfTheRealMixture) {
  VINDEX_NEEDS(mixture_);
  expect_coverage(figures_of(mixture_), 4);
}

TEST_F(SampleCoverageTest, OfTrainedLikeExperts) {
  must({"synth", "layer:64x96x64:bf16:trained", "-o", folder_.file("model")});
  expect_coverage(figures_of(folder_.file("model")), 16);
}

TEST_F(SampleCoverageTest, OfExpertsWithSpikes) {
  must({"synth", "layer:64x96x64:bf16:spiked", "-o", folder_.file("model")});
  const std::vector<Figures> all = figures_of(folder_.file("model"));
  expect_coverage(all, 16);
  for (const Figures& figures : all) {
    for (const double ratio : coverage_of(figures, 16).quantile_error_ratio) {
      EXPECT_GT(ratio, 0.9) << figures.metric;
      EXPECT_LT(ratio, 1.7) << figures.metric;
    }
  }
}

}  // namespace
}  // namespace vindex::sample_coverage_test
