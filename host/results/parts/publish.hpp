// Owns how a part, the description of a run and a results file appear: whole, checked and under
// their names.
#pragma once

#include "results/reading/source_pool.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vindex::results {

/// Publishes `rows` as the next part of worker `tag`; returns its path. `sequence` counts up.
std::string publish_rows(const std::string& folder, const std::string& tag, std::int64_t& sequence,
                         const FileDescription& description, std::span<const StoredRow* const> rows,
                         BulkSource& bulk);

/// Publishes the run description of worker `tag`.
void publish_run(const std::string& folder, const std::string& tag,
                 const FileDescription& description, std::span<const StoredRow* const> rows);

/// Publishes the results file `path` of `rows`, which come from `pool`, re-read and validated
/// before it appears. Errors: FormatError E-RESULTS-INVALID where it is not valid because a file of
/// the pool is not.
void publish_results(const std::string& path, const FileDescription& description,
                     std::span<const StoredRow* const> rows, SourcePool& pool);

}  // namespace vindex::results
