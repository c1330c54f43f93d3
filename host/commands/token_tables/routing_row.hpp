// Owns how a layer's router logits become a row of routing statistics (routing_cells.hpp): routed
// token by token, beside their nulls, with the transitions from the layer before.
#pragma once

#include "routing_null_cache.hpp"

#include "architecture/router_rule.hpp"
#include "backend/backend.hpp"
#include "results/rows/result_row.hpp"

#include <cstdint>
#include <vector>

namespace vindex::engine {

/// How the tokens of a layer are routed.
struct LayerRouter {
  RouterRule rule;          ///< biased only where `bias` is there
  std::vector<float> bias;  ///< per expert
};

/// Logits [tokens, experts] of a layer and what routes them; both outlive the call.
struct RoutedLogits {
  const LayerRouter& router;
  MatrixInput& logits;
  std::int32_t layer = -1;
};

/// The row of `own`; `before`, where it is there: the layer that transitions come from, of the same
/// tokens. `scale`: experts of the file, which arrays are padded to. Its index is not set. Not a
/// number of the row depends on how the input is cut. Errors: those of the inputs.
results::ResultRow routing_row(const RoutedLogits& own, const RoutedLogits* before,
                               std::int64_t scale, RoutingNullCache& nulls);

/// What that holds beside both inputs and slabs of `own`, the row included. `before`: experts of
/// that layer; 0: there is none.
std::uint64_t routing_row_bytes(std::int64_t tokens, std::int64_t experts, std::int64_t before,
                                std::int64_t scale);
/// Of these, the row's arrays.
std::uint64_t routing_arrays_bytes(std::int64_t scale);

}  // namespace vindex::engine
