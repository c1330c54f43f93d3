// Owns a forward pass: all tokens through layer 0, then through layer 1, and so on, every weight
// read once; what observers see of it, and how a run that was stopped goes on.
#pragma once

#include "backend/forward_backend.hpp"
#include "commands/trace/output/trace_folder.hpp"
#include "commands/trace/tokens/token_rows.hpp"
#include "commands/trace/tokens/trace_observer.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "engine/run/job_runner.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/read_statistics.hpp"
#include "model/model_index.hpp"
#include "model/transformer/transformer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vindex::commands {

/// A model that is opened, and what computes. Owned by someone else.
struct ForwardModel {
  const model::Transformer& transformer;
  const input::ModelFiles& files;
  const model::ModelIndex& index;
  ForwardBackend& backend;
};

struct ForwardOptions {
  std::uint64_t ram_budget = 0;      ///< bytes
  std::uint64_t reserved_bytes = 0;  ///< of these, what the caller holds meanwhile
  input::BulkReadOptions reading = {};
  /// Where the residual stream goes if it does not fit into the budget.
  std::string scratch_folder;
  /// Keeps the stream behind every layer, and is where an earlier run has left it; null: nothing is
  /// kept.
  TraceFolder* folder = nullptr;
};

struct ForwardOutcome {
  /// The residual stream behind the last layer, before the final norm; null where it was stopped.
  std::unique_ptr<TokenRows> states;
  bool stopped = false;
  std::int32_t layers = 0, layers_before = 0;  ///< of the model; of these, by earlier runs
  std::int64_t unrouted = 0;                   ///< tokens of a mixture whose logits route nowhere
  bool rows_in_file = false;
  input::ReadStatistics reading;
  std::string reading_engine;
  double keeping_seconds = 0.0;  ///< spent making layers durable
};

/// Adds what one pass read to what others did.
void add_reading(input::ReadStatistics& sum, const input::ReadStatistics& more);

/// Throws ConfigurationError E-BUDGET (78) where run_forward() would: nothing is read or written.
void require_forward_budget(const ForwardModel& model, const TracePrompts& prompts,
                            const ForwardOptions& options);

/// Runs `prompts` through the layers. Progress counts stages. Errors: ConfigurationError E-BUDGET
/// (78) before anything is read; FormatError (65) E-UNSUPPORTED for a matrix that cannot be
/// decoded; those of reading weights, of the back end, of the folder and of observers.
ForwardOutcome run_forward(const ForwardModel& model, const TracePrompts& prompts,
                           const ForwardOptions& options, std::span<TraceObserver* const> observers,
                           const engine::RunHooks& hooks);

}  // namespace vindex::commands
