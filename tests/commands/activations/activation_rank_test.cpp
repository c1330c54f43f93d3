// The effective rank that products of Gaussians have, beside draws of them.
#include "cpu/cpu_backend.hpp"
#include "decode/encoding.hpp"
#include "engine/token_covariance.hpp"
#include "measure/activation_statistics.hpp"
#include "measure/metrics.hpp"
#include "measure/random_draws.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace vindex::jobs::activation_rank_test {
namespace {

double drawn_rank(measure::Backend& backend, std::int64_t tokens, std::int64_t neurons,
                  measure::DrawStream& draws) {
  std::vector<float> values(static_cast<std::size_t>(tokens * neurons));
  for (float& value : values) {
    value = static_cast<float>(draws.normal() * draws.normal());
  }
  measure::ActivationTotals totals(neurons);
  totals.add(values);
  const std::vector<double> means = totals.neuron_means();
  engine::TokenCovariance covariance(backend, tokens, means, 1, {});
  covariance.add(decode::float32_view(values.data(), tokens, neurons), values);
  return covariance.effective_rank();
}

// Gaussian noise of 40 x 40 has 4.4 % more, of 100 x 64 2 %. Rows of the table of
// docs/activations.md.
TEST(EffectiveRankNull, IsThatOfProducts) {
  const auto backend = cpu::make_cpu_backend(1, "");
  struct Shape {
    std::int64_t tokens, neurons;
    int draws;
  };
  for (const auto [tokens, neurons, count] :
       {Shape{40, 40, 300}, Shape{20, 64, 300}, Shape{64, 20, 300}, Shape{65, 65, 150},
        Shape{100, 64, 100}, Shape{65, 128, 100}, Shape{101, 300, 30}, Shape{300, 100, 30}}) {
    measure::DrawStream draws(31);
    double mean = 0.0;
    for (int i = 0; i < count; ++i) {
      mean += drawn_rank(*backend, tokens, neurons, draws) / count;
    }
    const double gaussian =
        measure::null_metrics(tokens - 1, neurons)[measure::Metric::kEffectiveRank];
    const double null =
        measure::effective_rank_null(measure::ActivationLaw::kProduct, tokens, neurons, gaussian);
    fmt::print("| {} x {} | {:.2f} | {:.2f} | {:+.2f} % | {:+.2f} % |\n", tokens, neurons, mean,
               null, 100.0 * (null / mean - 1.0), 100.0 * (gaussian / mean - 1.0));
    EXPECT_NEAR(null, mean, 0.005 * mean) << tokens << " x " << neurons;
    EXPECT_EQ(
        measure::effective_rank_null(measure::ActivationLaw::kGaussian, tokens, neurons, gaussian),
        gaussian);
  }
}

}  // namespace
}  // namespace vindex::jobs::activation_rank_test
