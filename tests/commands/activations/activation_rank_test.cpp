// The effective rank that products of Gaussians have, beside draws of them.
#include "commands/token_tables/token_covariance.hpp"
#include "cpu/cpu_backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "statistics/activations/activation_nulls.hpp"
#include "statistics/activations/activation_statistics.hpp"
#include "statistics/null/nulls.hpp"
#include "statistics/samples/random_draws.hpp"
#include "statistics/spectrum/metric_table.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace vindex::commands::activation_rank_test {
namespace {

double drawn_rank(Backend& backend, std::int64_t tokens, std::int64_t neurons,
                  statistics::DrawStream& draws) {
  std::vector<float> values(static_cast<std::size_t>(tokens * neurons));
  for (float& value : values) {
    value = static_cast<float>(draws.normal() * draws.normal());
  }
  statistics::ActivationTotals totals(neurons);
  totals.add(values);
  const std::vector<double> means = totals.neuron_means();
  engine::TokenCovariance covariance(backend, tokens, means, 1, {});
  covariance.add(decode::float32_view(values.data(), tokens, neurons), values);
  return covariance.effective_rank();
}

// Gaussian noise of 40 x 40 has 4.4 % more, of 100 x 64 2 %. Rows of the table of
// docs/commands/activations.md.
TEST(EffectiveRankNull, IsThatOfProducts) {
  const auto backend = cpu::make_cpu_backend(1, "");
  struct Shape {
    std::int64_t tokens, neurons;
    int draws;
  };
  for (const auto [tokens, neurons, count] :
       {Shape{40, 40, 300}, Shape{20, 64, 300}, Shape{64, 20, 300}, Shape{65, 65, 150},
        Shape{100, 64, 100}, Shape{65, 128, 100}, Shape{101, 300, 30}, Shape{300, 100, 30}}) {
    statistics::DrawStream draws(31);
    double mean = 0.0;
    for (int i = 0; i < count; ++i) {
      mean += drawn_rank(*backend, tokens, neurons, draws) / count;
    }
    const double gaussian =
        statistics::null_metrics(tokens - 1, neurons)[statistics::Metric::kEffectiveRank];
    const double null = statistics::effective_rank_null(statistics::ActivationLaw::kProduct, tokens,
                                                        neurons, gaussian);
    fmt::print("| {} x {} | {:.2f} | {:.2f} | {:+.2f} % | {:+.2f} % |\n", tokens, neurons, mean,
               null, 100.0 * (null / mean - 1.0), 100.0 * (gaussian / mean - 1.0));
    EXPECT_NEAR(null, mean, 0.005 * mean) << tokens << " x " << neurons;
    EXPECT_EQ(statistics::effective_rank_null(statistics::ActivationLaw::kGaussian, tokens, neurons,
                                              gaussian),
              gaussian);
  }
}

}  // namespace
}  // namespace vindex::commands::activation_rank_test
