// Owns the search for the dominant eigenvectors of a float32 Gram matrix: a block filtered by
// Chebyshev polynomials, Rayleigh-Ritz, repeated until the residuals are small enough.
#pragma once

#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vindex::cpu {

/// Ritz pairs of a Gram matrix, descending: estimates. What is certain is taken from the weights
/// themselves afterwards (projection.hpp).
struct TopSubspace {
  WorkArray<float> basis;         ///< p x width, column-major, columns orthonormal to float32
  std::vector<double> values;     ///< [width]
  std::vector<double> residuals;  ///< [width] |G v - value v|
  std::int32_t rounds = 0;
};

/// Bytes that top_subspace() takes, its result included.
std::uint64_t top_subspace_bytes(std::int64_t p, std::int64_t width);

/// `gram`: upper triangle, column-major p x p; its diagonal is changed and restored. `width` <= p
/// columns, more than are wanted: the rest guards. Stops when enough(values, residuals) or after 8
/// rounds. Deterministic: the start is a fixed pseudo-random block.
/// Source: Zhou, Saad, Tiago, Chelikowsky 2006, "Self-consistent-field calculations using
/// Chebyshev-filtered subspace iteration" (scaled recurrence); degree capped so that
/// the filter's range stays within the working precision.
TopSubspace top_subspace(
    float* gram, std::int64_t p, std::int64_t width,
    const std::function<bool(std::span<const double>, std::span<const double>)>& enough,
    Workspace& workspace);

}  // namespace vindex::cpu
