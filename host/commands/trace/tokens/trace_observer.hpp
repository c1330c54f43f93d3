// Owns what a forward pass shows to who keeps something of it (the dump, statistics): blocks of
// rows as they are computed, layer by layer.
#pragma once
#include "statistics/routing/token_router.hpp"

#include <cstdint>
#include <span>

namespace vindex::commands {

/// Rows [first, first + rows) of one layer, row-major [rows, width]; valid during the call. Rows
/// are tokens of all prompts, one prompt after the other.
struct TraceBlock {
  std::int32_t layer = 0;
  std::int64_t first = 0, rows = 0, width = 0;
  const float* values = nullptr;
  std::span<const float> span() const {
    return {values, static_cast<std::size_t>(rows) * static_cast<std::size_t>(width)};
  }
};

/// Logits of tokens [first, first + rows) for vocabulary entries [first_entry, first_entry +
/// entries), row-major [rows, entries].
struct LogitsTile {
  std::int64_t first = 0, rows = 0;
  std::int64_t first_entry = 0, entries = 0;
  const float* values = nullptr;
};

/// Called by one thread. Of each layer, each kind of block comes in ascending order of rows and
/// covers every token once; then end_layer(). Kinds that a layer does not have do not come. How
/// rows are cut into blocks depends on the memory budget: nothing that is kept may depend on it.
/// Exceptions end the run.
class TraceObserver {
 public:
  virtual ~TraceObserver() = default;

  /// Before the first block: layers [0, layer) were finished, by an earlier run too, and do not
  /// come again; what was made durable by end_layer() of layers from `layer` on is void.
  virtual void begin(std::int32_t /*layer*/) {}
  /// Whether the kind is asked for at all: what nobody wants is not copied.
  virtual bool wants_hidden(std::int32_t /*layer*/) const { return false; }
  virtual bool wants_mlp(std::int32_t /*layer*/) const { return false; }
  virtual bool wants_router(std::int32_t /*layer*/) const { return false; }

  /// The residual stream behind the layer, before the final norm.
  virtual void hidden(const TraceBlock& /*block*/) {}
  /// act(gate(x)) * up(x) of a dense layer, or of a mixture's shared expert. Routed experts have
  /// none: they see only their own tokens.
  virtual void mlp(const TraceBlock& /*block*/) {}
  /// A router's products, with its own bias, before scores; and what the rule made of them, a token
  /// each (experts empty where the logits route nowhere).
  virtual void router(const TraceBlock& /*logits*/,
                      std::span<const statistics::RoutedToken> /*routed*/) {}
  /// Behind the last layer. Every logit comes once, in tiles: rows of logits are too wide to be
  /// whole where neither they nor the output matrix fit into memory. Whoever keeps them writes each
  /// tile to its place.
  virtual bool wants_logits() const { return false; }
  virtual void logits(const LogitsTile& /*tile*/) {}
  /// Everything of the layer has come. What is kept of it is durable at the return (in the folder
  /// of the run): a later run begins with the next layer.
  virtual void end_layer(std::int32_t /*layer*/) {}
};

}  // namespace vindex::commands
