// Owns the translation of a run's settings and surroundings into what the results file says of
// them.
#pragma once

#include <vindex/results/run_store.hpp>
#include <vindex/run/measure_run.hpp>

namespace vindex::run {

/// Everything of /run/ and the fingerprint. `backends` are those that will work, `reader` the one
/// that will read, asked before about every file (BulkReader::prepare()).
results::RunDescription describe_run(const RunSettings& settings, const SelectedModel& model,
                                     const std::vector<std::unique_ptr<measure::Backend>>& backends,
                                     const shard::BulkReader& reader);

/// "fast", "default", "strict".
std::string mode_name(measure::Mode mode);

}  // namespace vindex::run
