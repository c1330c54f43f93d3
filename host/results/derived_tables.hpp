// Owns /tensor/ and /layer/: what follows from the rows of /matrix/ and the model's tensor list.
#pragma once

#include "description.hpp"
#include "stored_row.hpp"
#include "table_writer.hpp"

#include "measure/layer_statistics.hpp"

#include <span>
#include <vector>

namespace vindex::results {

/// Statistics of a tensor are the merged moments of its matrices, in row order, where every slice
/// is in the file; else NaN with the reason.
/// With `sampled` the classes and the angles of the entries too.
SideTable tensor_table(std::span<const TensorEntry> tensors, bool sampled,
                       std::span<const StoredRow* const> rows);

/// The rows of /layer/. Roles are views of `rows`, which must outlive the result.
std::vector<measure::LayerGroup> groups_of(std::span<const StoredRow* const> rows);

SideTable layer_table(std::span<const StoredRow* const> rows);

}  // namespace vindex::results
