// Owns what `vindex show` and the end of `vindex measure` report of a results file: the numbers of
// one metric, matrix by matrix, their spread over (layer, block, role), who stands out, and the
// text and the JSON of all that.
#pragma once

#include "model/selection/selection.hpp"
#include "results/rows/result_row.hpp"
#include "statistics/layers/layer_statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::report {

/// What is asked for, as typed.
struct ShowQuery {
  std::optional<model::ResultTable> table = std::nullopt;  ///< nothing: the first that has rows
  std::string metric;             ///< "stable_rank", "var_at_k", "var_at_8", "var@8"
  std::optional<std::int32_t> k;  ///< of var_at_k; nothing: informative_k()
  model::Selection selection;     ///< layers, blocks and roles
  std::string sort_by;            ///< a column; empty: ratio, or value where there is no null
};

/// One metric of one matrix. NaN: not defined, or not in the file.
struct MetricNumbers {
  double value = std::numeric_limits<double>::quiet_NaN();
  double null = std::numeric_limits<double>::quiet_NaN();
  double sign_flip = std::numeric_limits<double>::quiet_NaN();  ///< one draw, or the mean of many
  double sign_flip_std = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_z = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_p = std::numeric_limits<double>::quiet_NaN();  ///< since schema 1.3
  double difference() const { return value - null; }
  double ratio() const { return value / null; }
};

/// A selected matrix, measured or not.
struct ShownMatrix : results::RowIdentity {
  bool measured = false;
  bool is_tried = false;  ///< it has an outcome
  std::string reason;
  std::int32_t k = 0;  ///< of var_at_k; 0: another metric, or no informative k
  MetricNumbers numbers;
  double sort_by = std::numeric_limits<double>::quiet_NaN();
};

struct ShownMetric {
  std::string name;               ///< as in the file: "var_at_k", "stable_rank"
  std::optional<std::int32_t> k;  ///< the one of all groups; nothing where each has its own
  bool has_null = false;
  bool has_sign_flip = false;
  bool has_spread = false;  ///< standard deviation and z of several sign flips
  bool is_share = false;    ///< between 0 and 1 by definition
  bool is_count = false;    ///< whole numbers
  bool is_by_k() const { return name == "var_at_k"; }
  /// Heading of a table: "var@64", "var@k", or the name.
  std::string label() const;
};

/// A table of a results file seen through one metric.
struct Shown {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::vector<model::ResultTable> other_tables;  ///< that have rows too
  bool is_adapter = false;                       ///< of LoRA pairs, and no table was asked for
  std::string path, model, mode, backend;
  std::string state;                                       ///< as RunStatus::state
  std::int64_t matrices_total = 0, matrices_measured = 0;  ///< rows of the table
  std::int64_t n_total = 0;  ///< RunStatus::n_total of the table; 0: nothing was drawn
  ShownMetric metric;
  std::string sort_by;                ///< the column in full
  std::vector<ShownMatrix> matrices;  ///< the selected ones, in the file's order
};

/// Reads the state of a run at `path`: the published file, its parts, or both. A matrix whose k is
/// not below its shorter side has value 1 whatever its weights: here it has no value.
///
/// Errors: MissingInputError where there is neither, or no row of that table; FormatError as
/// validate_file; UsageError E-METRIC, E-COLUMN, E-K for what the file does not have, with the
/// nearest name, E-SELECTION for what no matrix is in, E-RESULTS-PART where `path` is a part
/// itself.
Shown read_shown(const std::string& path, const ShowQuery& query);

/// Spread of a metric over the matrices of one (layer, block, role); NaN values are left out. Where
/// the group was drawn, over those that drawn_group() holds (statistics/null/finite_sample.hpp).
struct ShownGroup {
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
  // Medians over the matrices: defined also where shapes, and so nulls, differ.
  double difference = std::numeric_limits<double>::quiet_NaN();
  double ratio = std::numeric_limits<double>::quiet_NaN();
  double sign_flip = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_z = std::numeric_limits<double>::quiet_NaN();
};

/// Groups in the order in which each first appears. Quantiles as statistics::quantile.
std::vector<ShownGroup> shown_groups(std::span<const ShownMatrix> matrices);

/// Beyond this a robust z is called far (Iglewicz and Hoaglin 1993, with 0.6745 for 1/1.4826).
inline constexpr double kFarZ = 3.5;
/// Fewer experts have no group to be far from.
inline constexpr std::int64_t kFewestExperts = 5;

struct RankedExpert {
  const ShownMatrix* matrix = nullptr;
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
std::vector<ExpertGroup> expert_groups(std::span<const ShownMatrix> matrices);

/// The `count` measured matrices with the largest `sort_by` (the smallest with `ascending`), equal
/// ones in the file's order; those without one are left out. Views into `matrices`.
std::vector<const ShownMatrix*> top_matrices(std::span<const ShownMatrix> matrices,
                                             std::size_t count, bool ascending);

/// The groups as a table of at most `width` columns. Where there are more than `max_lines`, those
/// of routed experts, routers and dense MLPs are shown and a last line says how many are not.
std::string groups_text(const Shown& shown, std::size_t width,
                        std::size_t max_lines = std::numeric_limits<std::size_t>::max());
std::string experts_text(const Shown& shown, std::size_t width);
std::string top_text(const Shown& shown, std::size_t count, bool ascending, std::size_t width);
/// Of what rank an adapter is: numerical, effective and stable rank of the products, each beside
/// what noise of those factors gives, by role and, where they are few, by layer.
std::string ranks_text(const std::string& path, const ShowQuery& query, std::size_t width);
/// Path, state, counts; other tables that have rows; the metric.
std::string shown_headline(const Shown& shown);

/// The same as one JSON document, schema "vindex-show/1", numbers unrounded, null for NaN.
std::string groups_json(const Shown& shown);
std::string experts_json(const Shown& shown);
std::string top_json(const Shown& shown, std::size_t count, bool ascending);

}  // namespace vindex::report
