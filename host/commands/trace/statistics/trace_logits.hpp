// Owns the last stage of a forward pass: final states to logits, and what is made of them (the
// dump's `logits`, losses, what two models differ by). The states of a block of tokens are in
// memory, normalised; rows of the output matrix pass by once for each block, a tile of vocabulary
// entries at a time, so that memory is bounded for any vocabulary and number of tokens.
#pragma once

#include "commands/trace/forward/layer_blocks.hpp"
#include "commands/trace/tokens/token_rows.hpp"
#include "commands/trace/tokens/trace_observer.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "statistics/activations/token_losses.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::commands {

/// A model and what its last layer left: x [tokens, hidden], before the final norm. The weights are
/// its output matrix (encoded in memory, or streamed), final_norm and output_bias.
struct LogitsOf {
  const LayerTools& tools;
  const TokenRows& states;
};

/// How the stage is cut.
struct LogitsPlan {
  std::int64_t block = 1;   ///< tokens whose states are held
  std::int64_t rows = 1;    ///< of these, whose logits are made at once
  std::int64_t tile = 1;    ///< vocabulary entries of a tile
  std::uint64_t bytes = 0;  ///< that the stage holds beside weights and TokenRows
};

/// The largest pieces that fit `budget`; where nothing fits, the least there is: compare `bytes`.
/// `models`: 1, or 2 that are compared.
LogitsPlan plan_logits(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary,
                       std::int64_t models, std::uint64_t budget);

/// What logits said of the tokens that came.
struct LogitsFindings {
  /// Tokens that were predicted: all but the first of each prompt. Of the first model, and of both.
  statistics::LossTally losses;
  statistics::ComparisonTally comparison;  ///< empty where there is one model
  /// Of every token of the first model, predicted ones or not.
  statistics::PromptMean entropy, top8_mass;
  std::int64_t left_out = 0;  ///< tokens of it whose logits are not finite
};

/// Runs the stage. `observers` see the tiles of `a` that they want. `b`, where it is there, is
/// judged by `a` on the same tokens. `threads`: of sums on the host. Errors: those of
/// output_logits() and of the rows; ConfigurationError (78) E-TRACE-VOCABULARY where the
/// vocabularies differ; Stopped.
LogitsFindings trace_logits(const LogitsOf& a, const LogitsOf* b, const TracePrompts& prompts,
                            const LogitsPlan& plan, std::int32_t threads,
                            std::span<TraceObserver* const> observers);

}  // namespace vindex::commands
