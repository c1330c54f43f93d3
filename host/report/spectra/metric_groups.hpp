// Owns which of the matrices of a view belong together: the spread of a metric over (layer, block,
// role), the experts far from the rest, the first ones by a column.
#pragma once

#include "matrix_view.hpp"

#include "statistics/layers/layer_statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::report {

/// Spread of a metric over the matrices of one (layer, block, role); NaN values are left out. Where
/// the group was drawn, over those that drawn_group() holds (statistics/null/finite_sample.hpp).
struct MetricGroup {
  std::int32_t layer = -1;
  model::Block block = model::Block::kOther;
  std::string role;
  std::int64_t count = 0;   ///< measured
  std::int64_t values = 0;  ///< of them with a value
  /// Of a drawn group: those that the numbers are of, and all in the model; 0 of 0: not drawn.
  std::int64_t n_measured = 0, n_total = 0;
  statistics::MetricEstimates estimates;  ///< of a drawn group
  std::optional<std::int32_t> k;          ///< of var_at_k
  double median = std::numeric_limits<double>::quiet_NaN();
  double q25 = std::numeric_limits<double>::quiet_NaN();
  double q75 = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double null = std::numeric_limits<double>::quiet_NaN();  ///< NaN where it differs between them
  double median_null = std::numeric_limits<double>::quiet_NaN();  ///< of the matrices' nulls
  // Medians over the matrices: defined also where shapes, and so nulls, differ.
  double difference = std::numeric_limits<double>::quiet_NaN();
  double ratio = std::numeric_limits<double>::quiet_NaN();
  double sign_flip = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_z = std::numeric_limits<double>::quiet_NaN();
};

/// Groups in the order in which each first appears. Quantiles as statistics::quantile.
std::vector<MetricGroup> metric_groups(std::span<const MatrixView> matrices);

/// Beyond this a robust z is called far (Iglewicz and Hoaglin 1993, with 0.6745 for 1/1.4826).
inline constexpr double kFarZ = 3.5;
/// Fewer experts have no group to be far from.
inline constexpr std::int64_t kFewestExperts = 5;

struct RankedExpert {
  const MatrixView* matrix = nullptr;
  double z = std::numeric_limits<double>::quiet_NaN();  ///< (value - median) / (1.4826 MAD)
  bool is_far = false;
};

/// The routed experts of one (layer, role).
struct ExpertGroup {
  std::int32_t layer = -1;
  std::string role;
  std::int64_t count = 0;  ///< experts with a value
  double median = std::numeric_limits<double>::quiet_NaN();
  double scale = std::numeric_limits<double>::quiet_NaN();  ///< 1.4826 MAD; see expert_groups
  std::vector<RankedExpert> experts;  ///< the far ones, the lowest and the highest, by value
};

/// Who stands out among the experts of each layer and role. Where more than half of the experts
/// have one value, so that the MAD is 0, the scale is 1.2533 times the mean absolute deviation;
/// where all have it, nobody is far. Views into `matrices`.
std::vector<ExpertGroup> expert_groups(std::span<const MatrixView> matrices);

/// The `count` measured matrices with the largest `sort_by` (the smallest with `ascending`), equal
/// ones in the file's order; those without one are left out. Views into `matrices`.
std::vector<const MatrixView*> top_matrices(std::span<const MatrixView> matrices, std::size_t count,
                                            bool ascending);

/// Positions of the matrices of every (layer, block, role), groups in the order in which each first
/// appears.
using GroupMembers = std::vector<std::vector<std::size_t>>;
GroupMembers group_members(std::span<const MatrixView> matrices);

}  // namespace vindex::report
