// Owns one pass over matrices of a model without a results file: planned, read ahead and spread
// over workers as a run is, within the memory budget.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/run/job_runner.hpp>
#include <vindex/shard/bulk_reader.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vindex::run {

/// A matrix to pass over, with what working on it takes beside its encoded bytes.
struct PassMatrix {
  model::MatrixRecord record;
  std::uint64_t decoded = 0;  ///< memory of the work
  std::uint64_t encoded = 0;  ///< of the slabs that it asks for where bytes are not held whole
};

struct PassOptions {
  std::int32_t threads = 1;
  std::uint64_t ram_budget = 0;  ///< bytes, of this pass alone
  shard::BulkReadOptions reading;
};

struct PassOutcome {
  bool finished = false;  ///< every matrix was worked on; else a signal ended it
  shard::ReadStatistics reading;
  std::string engine;  ///< BulkReader::engine()
};

/// Works on matrix number `i`; called from several threads at once.
using PassBody = std::function<void(std::size_t i, measure::MatrixInput& input)>;

/// Calls `body` for every one of `matrices` (supported ones) of `files` once, unless
/// hooks.stop ends it; a body that takes long asks for it and throws Stopped. Errors:
/// ConfigurationError E-BUDGET (78) before anything is read; the first that reading or `body` ends
/// with.
PassOutcome pass_over(const shard::ModelFiles& files, const std::vector<PassMatrix>& matrices,
                      const PassOptions& options, const PassBody& body, const RunHooks& hooks);

}  // namespace vindex::run
