// Owns the way to the tile product on Intel AMX.
#pragma once

#include "cpu/simd/matrix_unit.hpp"

namespace vindex::cpu {

/// A TileProduct adds the product of the operands to the triangle j <= i of gram[i * n + j], and
/// looks at `stop` before every block of rows. This one is of Intel AMX: call it only where
/// choose_matrix_unit() says so.
TileProduct amx_tile_product();

}  // namespace vindex::cpu
