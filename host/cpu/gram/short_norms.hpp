// Owns the diagonal of a float32 Gram matrix. A sum of squares has terms of one sign, so float32
// rounding of it has a bias: 1 to 3e-7 of s_1^2 for noise, which moves every eigenvalue, while the
// rounding of the other entries moves one that stands alone by 1e-9. In float64 it costs n p.
#pragma once

#include "cpu_tiles.hpp"

namespace vindex::cpu {

/// norms[i] += the sum of squares of index i of the short side over the tile, in float64.
void add_short_norms(const Tile& tile, bool row_slabs, double* norms);

}  // namespace vindex::cpu
