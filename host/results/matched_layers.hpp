// Owns what a file of `vindex cka` says of its matrix of similarities: /matched/, layers of A and B
// at the same relative depths, and the stages of A.
#pragma once

#include "description.hpp"
#include "hdf5.hpp"
#include "results_writer.hpp"
#include "shown_cells.hpp"
#include "table_writer.hpp"

#include "measure/layer_statistics.hpp"

#include <optional>
#include <span>
#include <vector>

namespace vindex::results {

/// `rows` in the file's order: A's layers.
std::vector<MatchedLayer> matched_layers(const FileDescription& description,
                                         std::span<const StoredRow* const> rows, BulkSource& bulk);

/// Of A, once every neighbour was compared with its standard error.
std::optional<measure::Stages> stages_of(std::span<const StoredRow* const> rows);

/// Layers of A whose CKA with the next one is a break.
std::vector<std::int32_t> break_layers(const measure::Stages& stages,
                                       std::span<const StoredRow* const> rows);

/// /matched/.
SideTable matched_table(const std::vector<MatchedLayer>& matched);

/// /matched/ and the root attributes stages, stages_threshold, stages_median, stages_mad and
/// stages_breaks (layers, separated by spaces).
void write_matched(h5::File& file, const FileDescription& description,
                   std::span<const StoredRow* const> rows, BulkSource& bulk);

}  // namespace vindex::results
