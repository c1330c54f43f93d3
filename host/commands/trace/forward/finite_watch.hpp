// Owns noticing activations and logits that are not finite: they pass through a model to its end
// and would be written as any other.
#pragma once

#include "commands/trace/tokens/trace_observer.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::commands {

/// What of one model was not finite, in the layers that this run computed.
struct NotFinite {
  std::int32_t first_layer = -1;       ///< the first with such activations; -1: there is none
  std::int64_t activation_tokens = 0;  ///< tokens of that layer with one
  std::int64_t logit_tokens = 0;       ///< tokens with such a logit
  bool any() const { return first_layer >= 0 || logit_tokens > 0; }
};

/// "warning W-NOT-FINITE: ..." of a model, whose name stands before it where there are two.
std::string not_finite_text(const NotFinite& found, const std::string& side);

/// Sees everything that a pass computes and keeps counts alone.
class FiniteWatch : public TraceObserver {
 public:
  /// Of a run of `tokens`. `logits`: somebody has them made; what watches does not.
  FiniteWatch(std::int64_t tokens, bool logits)
      : logits_(logits),
        rows_(static_cast<std::size_t>(tokens)),
        logit_rows_(static_cast<std::size_t>(tokens)) {}

  bool wants_hidden(std::int32_t /*layer*/) const override { return true; }
  bool wants_mlp(std::int32_t /*layer*/) const override { return true; }
  bool wants_logits() const override { return logits_; }
  void hidden(const TraceBlock& block) override { see(block); }
  void mlp(const TraceBlock& block) override { see(block); }
  void logits(const LogitsTile& tile) override;
  void end_layer(std::int32_t layer) override;

  NotFinite found() const;

 private:
  void see(const TraceBlock& block);

  bool logits_;
  NotFinite found_;
  std::vector<bool> rows_, logit_rows_;  ///< by token: of the layer under way; of logits
};

}  // namespace vindex::commands
