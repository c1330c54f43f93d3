// Owns what is said of layers from what is known of their matrices: for each (layer, block, role)
// the spread of a few metrics over the experts, and who is extreme (rows of /layer/ in the results
// contract); and which layers of two models lie at the same relative depth.
#pragma once

#include "statistics/null/finite_sample.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace vindex::statistics {

/// The metrics that /layer/ summarises, in the order of LayerGroup::statistics.
enum class LayerMetric : std::uint8_t {
  kVarAt64,
  kVarAt64Ratio,  ///< var_at_64 over its null
  kStableRank,
  kEffectiveRank,
  kSigmaRatio12,
  kCount
};
inline constexpr std::size_t kLayerMetricCount = static_cast<std::size_t>(LayerMetric::kCount);

/// Dataset prefix ("var_at_64_ratio"); the suffixes are `_median`, `_q25`, ... as in Statistic.
std::string_view layer_metric_name(LayerMetric metric);

/// What of a row of /matrix/ the statistics need. `role` is a view: its text outlives the call.
struct LayerRow {
  std::int32_t layer = -1;
  std::int32_t block = 0;  ///< any number that distinguishes blocks (model::Block)
  std::string_view role;
  std::int32_t expert = -1;  ///< -1 where the matrix belongs to no expert
  std::int64_t rows = 0;     ///< logical
  std::int64_t cols = 0;
  bool measured = false;   ///< status `measured`; other rows count for nothing
  DrawnMember drawn = {};  ///< where the group was drawn
  double var_at_64 = std::numeric_limits<double>::quiet_NaN();
  double var_at_64_null = std::numeric_limits<double>::quiet_NaN();
  double stable_rank = std::numeric_limits<double>::quiet_NaN();
  double effective_rank = std::numeric_limits<double>::quiet_NaN();
  double sigma_ratio_1_2 = std::numeric_limits<double>::quiet_NaN();
};

/// Spread of one metric over a group; NaN values are left out, all NaN and -1 where none is left.
struct Statistic {
  double median = std::numeric_limits<double>::quiet_NaN();
  double q25 = std::numeric_limits<double>::quiet_NaN();
  double q75 = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  std::int32_t argmin = -1;  ///< expert with the least value, the first of several
  std::int32_t argmax = -1;
};

/// What the drawn members of a group say of one metric over the whole group.
struct MetricEstimates {
  Estimate mean, median, q25, q75;
};
/// Of `values`, all in `range`, beside which `untried` members of the group were not looked at.
MetricEstimates estimates_of(std::span<const double> values, std::int64_t untried,
                             const ValueRange& range = {});

/// What `metric` of any matrix of a short side lies between (0: it is not known, matrices differ);
/// `null` is var_at_64 of noise of that shape. NaN where there is no bound.
ValueRange layer_metric_range(LayerMetric metric, std::int64_t short_side, double null);

/// One row of /layer/.
struct LayerGroup {
  std::int32_t layer = -1;
  std::int32_t block = 0;
  std::string_view role;   ///< the view of the group's first row
  std::int64_t count = 0;  ///< measured rows
  /// Of a drawn group: those that the statistics and estimates are of, and all in the model.
  std::int64_t n_measured = 0, n_total = 0;
  std::array<Statistic, kLayerMetricCount> statistics;
  std::array<MetricEstimates, kLayerMetricCount> estimates;          ///< of a drawn group
  double var_at_64_null = std::numeric_limits<double>::quiet_NaN();  ///< NaN where shapes differ
  const Statistic& operator[](LayerMetric metric) const {
    return statistics[static_cast<std::size_t>(metric)];
  }
};

/// Groups `rows` by (layer, block, role), in the order in which each group first appears (rows in
/// the file's order give groups in the file's order). A group without a measured row stays, with
/// count 0. Where rows were drawn, statistics and estimates are of the measured rows that
/// drawn_group() holds, none perhaps. Where the shapes (rows, cols) of a group's measured rows
/// differ, `var_at_64_null` and the ratio are NaN. Order statistics as in quantile() (metrics.hpp).
std::vector<LayerGroup> layer_groups(std::span<const LayerRow> rows);

/// Layers `a` and `b` (positions from 0) at relative depth `depth` in [0, 1].
struct DepthMatch {
  double depth = 0.0;
  std::size_t a = 0, b = 0;
};

/// Every 5 % from 0 to 1, and so 15, 30, 55 and 85 % of published tables. The position at depth d
/// of n layers is d (n - 1), rounded to the nearest, halves up. Nothing where a side has no layer.
std::vector<DepthMatch> match_depths(std::size_t layers_a, std::size_t layers_b);

}  // namespace vindex::statistics
