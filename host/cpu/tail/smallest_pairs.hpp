// Owns the eigenvectors of a band's smallest eigenvalues.
#pragma once

#include "band_inverse.hpp"

#include "cpu/workspace/workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Orthonormal columns (order x width, column-major, ascending by Ritz value) whose first `count`
/// approach the eigenvectors of the `count` smallest eigenvalues of the band until
/// ||B x - t x|| <= `enough` for each; `width` is what `columns` has room for. `inverse` is
/// factored with a shift below which all those eigenvalues are far from the rest or as good as
/// equal. False where it does not settle. Deterministic: the start is a fixed pseudo-random block.
/// Source: block Krylov spaces of the inverse with restarts (Golub and Van Loan, Matrix
/// Computations, 10.3; Knyazev 2001 for the block restart).
bool smallest_pairs(BandInverse& inverse, std::int64_t count, double enough,
                    WorkArray<double>& columns, Workspace& workspace);

/// Bytes that it takes beside `columns`.
std::uint64_t smallest_pairs_bytes(std::int64_t count, std::int64_t order);

}  // namespace vindex::cpu
