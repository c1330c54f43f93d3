// Owns the second stage of tridiagonalisation: band storage of half bandwidth kBand to a
// tridiagonal matrix by chasing bulges, the band staying in the second-level cache.
#pragma once

#include "band_storage.hpp"

#include "cpu/simd/simd_level.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Reduces `band` (layout of reduce_to_band(), destroyed) to a symmetric tridiagonal matrix with
/// the same eigenvalues.
///
/// Shapes    diagonal: n; off_diagonal: n, the last one zero.
/// Accuracy  float64 also behind a float32 first stage: n sweeps pass over every row, and in
///           float32 their errors were 2 to 4 times those of everything before, for 0.01 s less.
/// Errors    expects() on sizes; Stopped, looked for every few sweeps.
/// Source    Haidar, Ltaief, Dongarra 2011 (column-wise bulge chasing by reflectors), each
///           32 x 32 window with vector instructions.
void chase_band(std::span<double> band, std::int64_t n, std::span<double> diagonal,
                std::span<double> off_diagonal, SimdLevel level, const std::stop_token& stop = {});

}  // namespace vindex::cpu
