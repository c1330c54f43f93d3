// Owns how often pairs of rows count in a draw of the bootstrap (run/cka_tile.hpp says why).
#pragma once

#include "activation_rows.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::run {

struct DrawWeights {
  std::vector<float> of_row;         ///< how often its group was drawn
  std::vector<RowRun> group_of_row;  ///< rows of that group
};

/// Of draw number `draw`; `groups` tile the rows.
DrawWeights drawn_weights(std::span<const RowRun> groups, std::int64_t draw);

/// Sum of M_ij a_ij^2 over the block `rows` x `cols` of a matrix whose diagonal is 0, M_ij = w_i
/// w_j between groups and w_i within one. Writes M_ij a_ij to `out` unless it is null.
double weigh_block(std::span<const float> block, const DrawWeights& weights, RowRun rows,
                   RowRun cols, float* out);

/// sum_k a_k b_k in float64, in eight sums side by side.
double float_dot(std::span<const float> a, const float* b);

}  // namespace vindex::run
