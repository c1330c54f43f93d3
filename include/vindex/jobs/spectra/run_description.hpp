// Owns the translation of a run's settings and surroundings into what the results file says of
// them.
#pragma once

#include <vindex/jobs/spectra/measure_run.hpp>
#include <vindex/results/run_store.hpp>

namespace vindex::jobs {

/// Everything of /run/ and the fingerprint. `backends` are those that will work, `reader` the one
/// that will read, asked before about every file (BulkReader::prepare()).
results::RunDescription describe_run(const engine::RunSettings& settings,
                                     const engine::SelectedModel& model,
                                     const std::vector<std::unique_ptr<measure::Backend>>& backends,
                                     const shard::BulkReader& reader);

}  // namespace vindex::jobs
