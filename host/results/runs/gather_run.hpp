// Owns putting together what is on disk of a run: descriptions, the published file, parts.
#pragma once

#include "results/parts/parts_folder.hpp"
#include "results/reading/gathered_rows.hpp"
#include "results/schema/run_description.hpp"

#include <optional>
#include <span>
#include <string>

namespace vindex::results {

/// Of the files of a run at `path` the one that says most of it.
const std::string& describing_file(const std::string& path, const RunFiles& run);
/// "complete" or "partial", of all of its rows; of parts alone "finished" (all rows are there, to
/// be merged) or "running".
std::string state_of(const RunFiles& run, std::span<const StoredRow* const> rows);

/// Adds what is on disk of a run: descriptions, the published file, parts. Errors:
/// ConfigurationError E-RESUME-FINGERPRINT where they are of different runs; UsageError
/// E-RESULTS-PART where `path` is a part itself; FormatError E-RESULTS-KIND where the run is of
/// another schema than `wanted`. Gives the schema.
FileSchema gather_run(const std::string& path, const RunFiles& run, GatheredRows& gathered,
                      std::optional<FileSchema> wanted = FileSchema::kResults);

}  // namespace vindex::results
