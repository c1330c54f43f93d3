// Owns sums of squares of the lines of the short side, in float64.
#pragma once

#include "cpu/tiles/cpu_tiles.hpp"

namespace vindex::cpu {

/// norms[i] += the sum of squares of index i of the short side over the tile, in float64.
void add_short_norms(const Tile& tile, bool row_slabs, double* norms);

}  // namespace vindex::cpu
