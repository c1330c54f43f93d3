// Owns /tensor/, /layer/ and /null/: what follows from the rows of /matrix/ and the model's tensor
// list.
#pragma once

#include "results/rows/stored_row.hpp"
#include "results/schema/side_table.hpp"
#include "statistics/layers/layer_statistics.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::results {
class ResultsReader;
}

namespace vindex::commands {

/// Statistics of a tensor are the merged moments of its matrices, in row order, where every slice
/// is in the file; else NaN with the reason.
/// Which columns of samples it has.
enum class TensorSamples : std::uint8_t {
  kNone,
  kAngles,  ///< classes and angles of the entries: files of schema 1.2 and 1.3
  kScales   ///< and what they say across scales, of a matrix the mean over its slices
};
results::SideTable tensor_table(std::span<const results::TensorEntry> tensors,
                                TensorSamples samples,
                                std::span<const results::StoredRow* const> rows);

/// The rows of /layer/. Roles are views of `rows`, which must outlive the result.
std::vector<statistics::LayerGroup> groups_of(std::span<const results::StoredRow* const> rows);

/// A row for each shape of `rows` whose nulls are means of draws: the standard errors of these, as
/// `<name>_null_error`. No rows where there is no such shape; the first 256 where there are more.
results::SideTable null_table(std::span<const results::StoredRow* const> rows);

/// With `drawn` also how many of how many the statistics are of, and the estimates.
results::SideTable layer_table(std::span<const results::StoredRow* const> rows, bool drawn);

/// What is wrong with a file of spectra, one line each (Schema::validate).
std::vector<std::string> validate_spectra(results::ResultsReader& reader);

}  // namespace vindex::commands
