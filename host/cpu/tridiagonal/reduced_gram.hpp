// Owns what a reduction to tridiagonal form leaves behind for a second look: the band, and the
// orthogonal factor that leads from the Gram matrix to it, in the precisions of the reduction.
#pragma once

#include "simd_tridiagonal.hpp"

#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <vector>

namespace vindex::cpu {

/// 2^-form.exponent G = Q B Q^T, G the Gram matrix of order n of the weights under `change`, less
/// lines that are zero.
struct ReducedGram {
  std::int64_t n = 0;
  std::int64_t short_side = 0;
  std::vector<std::int64_t> lines;  ///< of the short side, ascending: those of G
  TileChange change;
  /// Of B, reduced in float64: all, none, or the first ones (tridiagonalise_mixed()).
  std::int64_t wide_columns = 0;
  BandForm form;
  WorkArray<double> band;
  WorkArray<std::byte> factor;       ///< workspace of tridiagonalise(); of the first columns
  WorkArray<std::byte> rest_factor;  ///< of the columns behind them

  explicit operator bool() const { return n > 0; }
};

/// to = Q from, or Q^T from. Columns of Q's side B have band_order(n) rows, those of the other side
/// short_side, zero in lines that G leaves out; both are column-major and tight.
void apply_factor(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
                  double* to, Workspace& workspace);
/// Bytes that it takes.
std::uint64_t apply_factor_bytes(std::int64_t n, std::int64_t count);

}  // namespace vindex::cpu
