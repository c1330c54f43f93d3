// Owns both readings of a layer's activations, and which of its numbers are NaN and why.
#include "activations_row.hpp"

#include "activations_cells.hpp"
#include "token_covariance.hpp"

#include "backend/inner_products.hpp"
#include "engine/run/job.hpp"
#include "engine/units/row_slabs.hpp"
#include "statistics/activations/activation_statistics.hpp"

#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace vindex::engine {

namespace {

/// The covariance is of centred tokens: its null is of one row less.
constexpr std::int64_t kCentredRows = 1;

/// Why numbers of the values are NaN.
void add_reasons(std::int64_t tokens, bool with_covariance,
                 const statistics::ActivationTotals& totals, results::ResultRow& row) {
  const auto is_missing = [&](std::size_t cell) { return std::isnan(row.cells[cell]); };
  if (totals.mean_square() == 0.0) {
    add_reason(row, "zeros alone: no shape (hoyer, kurtosis, effective_rank)");
    return;
  }
  if (is_missing(activations_cell("hoyer_token"))) {
    add_reason(row, "one neuron: a token has no sparseness");
  }
  if (is_missing(activations_cell("kurtosis"))) {
    add_reason(row, "all values are equal: no kurtosis");
  }
  if (with_covariance && is_missing(activations_cell("effective_rank"))) {
    add_reason(row, tokens == kCentredRows ? "one token: no covariance"
                    : totals.varies()      ? "values too large for a covariance in float32"
                                           : "all tokens are identical: no effective rank");
  }
}

}  // namespace

std::int64_t activations_step(const decode::Encoding& encoding, std::int64_t cols) {
  return inner_product_rows(encoding, cols, true);
}

void add_activations(MatrixInput& values, statistics::ActivationLaw law,
                     const CovarianceTools* tools, const std::stop_token& stop,
                     results::ResultRow& row) {
  const std::int64_t step = activations_step(values.encoding(), values.cols());
  statistics::ActivationTotals totals(values.cols());
  for_each_slab(values, step,
                [&](const auto& /*slab*/, std::span<const float> some) { totals.add(some); });
  if (!totals.is_finite()) {
    row.status = MatrixStatus::kNotFinite;
    add_reason(row, "values that are not finite: no statistics of them");
    return;
  }
  const std::vector<double> means = totals.neuron_means();
  statistics::ActivationSpread spread(totals);
  std::optional<TokenCovariance> covariance;
  if (tools != nullptr && values.rows() > kCentredRows) {
    covariance.emplace(tools->backend, values.rows(), means, tools->threads, stop);
  }
  for_each_slab(values, step, [&](const decode::EncodedMatrix& slab, std::span<const float> some) {
    spread.add(some);
    if (covariance) {
      covariance->add(slab, some);
    }
  });
  const statistics::ActivationNulls nulls =
      statistics::activation_nulls(law, values.rows(), values.cols());
  const auto set = [&](std::size_t cell, double value) { row.cells[cell] = value; };
  set(activations_cell("hoyer"), totals.hoyer());
  set(activations_cell("hoyer_null"), nulls.hoyer);
  set(activations_cell("hoyer_token"), totals.hoyer_token());
  set(activations_cell("hoyer_token_null"), nulls.hoyer_token);
  set(activations_cell("neuron_variance"), spread.neuron_variance());
  set(activations_cell("neuron_variance_null"), nulls.neuron_variance * totals.mean_square());
  set(activations_cell("dead_neurons"), static_cast<double>(totals.dead_neurons()));
  set(activations_cell("dead_neurons_null"), nulls.dead_neurons);
  set(activations_cell("kurtosis"), spread.kurtosis());
  set(activations_cell("kurtosis_null"), nulls.kurtosis);
  set(activations_cell("mean_square"), totals.mean_square());
  if (covariance) {
    // Tokens that are all alike leave rounding alone.
    set(activations_cell("effective_rank"),
        totals.varies() ? covariance->effective_rank() : std::nan(""));
    const double gaussian = tools->nulls.of(values.rows() - kCentredRows,
                                            values.cols())[statistics::Metric::kEffectiveRank];
    set(activations_cell("effective_rank_null"),
        statistics::effective_rank_null(law, values.rows(), values.cols(), gaussian));
  }
  add_reasons(values.rows(), tools != nullptr, totals, row);
  const auto sparsity = spread.sparsity();
  row.arrays[activations_array("sparsity")] =
      results::ArrayCell(std::vector<double>(sparsity.begin(), sparsity.end()));
  row.arrays[activations_array("sparsity_null")] =
      results::ArrayCell(std::vector<double>(nulls.sparsity.begin(), nulls.sparsity.end()));
}

std::uint64_t activations_row_bytes(std::int64_t tokens, std::int64_t neurons,
                                    const CovarianceTools* covariance) {
  return statistics::ActivationTotals::memory_bytes(neurons) +
         (covariance == nullptr ? 0
                                : TokenCovariance::memory_bytes(covariance->backend, tokens,
                                                                neurons, covariance->threads));
}

}  // namespace vindex::engine
