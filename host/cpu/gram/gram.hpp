// Owns the Gram matrix over the short side: G = sum over tiles of T^T T (row slabs) or T T^T
// (column slabs), p x p, column-major, upper triangle only (element (i, j), i <= j, at j p + i).
//
// Also owns the diagonal of a float32 Gram matrix. A sum of squares has terms of one sign, so
// float32 rounding of it has a bias: 1 to 3e-7 of s_1^2 for noise, which moves every eigenvalue,
// while the rounding of the other entries moves one that stands alone by 1e-9. In float64 it costs
// n p.
#pragma once

#include "cpu/tiles/cpu_tiles.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::cpu {

/// Adds one tile to `gram`. float32: products and sums of one
/// chunk in float32, then one rounding per chunk, so the error does not grow with the long side.
void add_to_gram(const Tile& tile, bool row_slabs, float* gram);

/// The same in float64; `wide` takes the tile's weights as doubles.
void add_to_gram(const Tile& tile, bool row_slabs, double* wide, double* gram);

/// ||G||_F^2 of a symmetric matrix given by its upper triangle, float64 sums in a fixed order.
double symmetric_norm_squared(const float* gram, std::int64_t p);
double symmetric_norm_squared(const double* gram, std::int64_t p);

/// What statistics::GramNorms wants of the diagonal.
struct DiagonalNorms {
  double trace = 0.0;
  double norm_squared = 0.0;
  double largest = 0.0;
};
DiagonalNorms diagonal_norms(const float* gram, std::int64_t p);
DiagonalNorms diagonal_norms(const double* gram, std::int64_t p);

/// Sum of G_ij^2 over the entries off the diagonal that are a_i + a_j to within rounding: those
/// whose differences from line to line are the same in the column before
/// (statistics::GramNorms::additive_norm_squared). Estimated from every seventh column.
double additive_norm_squared(const float* gram, std::int64_t p);
double additive_norm_squared(const double* gram, std::int64_t p);

/// Lines whose diagonal entry is not exactly 0. The others are zero rows or columns of the weights:
/// so many singular values are exactly 0.
std::vector<std::int64_t> nonzero_lines(const float* gram, std::int64_t p);
std::vector<std::int64_t> nonzero_lines(const double* gram, std::int64_t p);

/// Packs the given lines (ascending) in place.
void keep_lines(float* gram, std::int64_t p, std::span<const std::int64_t> lines);
void keep_lines(double* gram, std::int64_t p, std::span<const std::int64_t> lines);

}  // namespace vindex::cpu
