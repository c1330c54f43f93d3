// Owns the matrices of the certified bounds of `fast` mode on the CPU: one Cholesky factorisation,
// and small eigenvalue problems. The proof stands in statistics/judgement/spectrum_bounds.hpp.
#pragma once
#include "projection.hpp"

#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Bound of |G - W^T W|_2 for a Gram summed in float32 over `length` products at a time and then
/// over the chunks: (length + chunks + 4) 2^-24 |W|_F^2. The 4 covers scales folded in afterwards.
double gram32_error_bound(std::int64_t long_side, std::int64_t length, double sum_squares);

/// Bytes that prove_bounds() takes.
std::uint64_t certificate_bytes(std::int64_t p, std::int64_t count);

/// Bounds by the argument there; values NaN where nothing could be proved. `gram` (upper triangle)
/// and `next_value` (estimate of the largest eigenvalue beyond `projection`) are in the scale of
/// the Gram, which is 2^(2 scale_exponent) times that of the weights; `gram_error` likewise.
SpectrumBounds prove_bounds(const float* gram, const Projection& projection, double next_value,
                            double gram_error, double sum_squares, std::int64_t long_side,
                            Workspace& workspace);

}  // namespace vindex::cpu
