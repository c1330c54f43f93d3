// Owns a pass without a results file: planned, read ahead and spread over workers by the loop of
// every run (job_runner.hpp), within the memory budget. What comes of a piece of work is
// its body's: it is kept in memory, or written as a tensor.
#pragma once

#include "job_runner.hpp"

#include "backend/backend.hpp"
#include "engine/units/unit_stream.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vindex::engine {

/// A matrix to pass over, with what working on it takes beside its encoded bytes.
struct PassMatrix {
  model::MatrixRecord record;
  std::uint64_t decoded = 0;  ///< memory of the work
  std::uint64_t encoded = 0;  ///< of the slabs that it asks for where bytes are not held whole
};

struct PassOptions {
  std::int32_t threads = 1;
  std::uint64_t ram_budget = 0;      ///< bytes
  std::uint64_t reserved_bytes = 0;  ///< of these, what the caller holds meanwhile
  bool in_order = false;             ///< no outlier is worked on before its turn
  input::BulkReadOptions reading = {};
  /// Bodies ask for the rows of a matrix once, from the first to the last: where rows lie one
  /// behind the other, a few are in memory at a time (Reading::kPassing).
  bool rows_pass_by = false;
  /// Of memory for encoded bytes; empty: ordinary memory.
  MakeStaging staging = {};
};

/// Works on what was number `i`; called from several threads at once.
using PassBody = std::function<void(std::size_t i, MatrixInput& input)>;
using UnitBody = std::function<void(std::size_t i, UnitStream& unit)>;

/// Calls `body` for every one of `works` (of matrices of `models`, one or none; `row`: its number)
/// once, unless a stop ends it, as `stopped` of the outcome says; a body that takes long asks for
/// the stop and throws Stopped. Errors: ConfigurationError E-BUDGET (78) before anything is read;
/// the first that `body` ends with.
RunOutcome pass_over(const ModelViews& models, const std::vector<RowWork>& works,
                     const PassOptions& options, const UnitBody& body, const RunHooks& hooks);

/// The same for every one of `matrices` (supported ones) of `files`. Errors: also the first that
/// reading ends with.
RunOutcome pass_over(const input::ModelFiles& files, const std::vector<PassMatrix>& matrices,
                     const PassOptions& options, const PassBody& body, const RunHooks& hooks);

}  // namespace vindex::engine
