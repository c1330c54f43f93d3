// Owns what follows from the matrix of similarities of a file of `vindex cka`: layers of A and B at
// the same relative depths (/matched/), and the stages of A (attributes of the root).
#pragma once

#include "results/rows/bulk_source.hpp"
#include "results/schema/file_description.hpp"
#include "results/schema/side_table.hpp"
#include "statistics/layers/stages.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vindex::commands {

/// Layers of A and B at one relative depth.
struct MatchedLayer {
  double depth = 0.0;  ///< 0 to 1
  std::int64_t layer_a = -1, layer_b = -1;
  double cka = 0.0, cka_biased = 0.0, null_q95 = 0.0, p = 0.0;  ///< NaN where not compared
};

struct CkaFindings {
  std::vector<MatchedLayer> matched;
  /// Of A, once every neighbour was compared with its standard error.
  std::optional<statistics::Stages> stages;
  std::vector<std::int32_t> stage_breaks;  ///< layers of A that a stage ends with
};

/// `rows` in the file's order: A's layers.
CkaFindings cka_findings(const results::FileDescription& description,
                         std::span<const results::StoredRow* const> rows,
                         results::BulkSource& bulk);

/// The same as a file says it beside its rows: /matched/ and the attributes stages, stages_limits
/// (of every layer but the last, separated by spaces), stages_median, stages_mad and stages_breaks
/// (layers, likewise).
results::SideTables beside_of(const CkaFindings& findings);
/// What `beside`, made by beside_of(), was made of, but for the places of stages->breaks.
CkaFindings findings_of(const results::SideTables& beside);

}  // namespace vindex::commands
