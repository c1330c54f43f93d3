// Owns fast random orthogonal matrices: products of random sign changes and Hadamard transforms on
// two overlapping ranges whose length is a power of two. Applied to diag(s) from both sides they
// give a dense matrix with exactly the planted singular values, at n log n instead of n^3 work.
// Source: Ailon and Chazelle 2009 (fast Johnson-Lindenstrauss transform); Halko, Martinsson, Tropp
// 2011, 4.6.
#pragma once

#include <cstdint>
#include <span>

namespace vindex::synth {

/// Writes U diag(sigma) V^T to `out`, rows x cols row-major without gaps: sigma has at most
/// min(rows, cols) values, U (rows x rows) and V (cols x cols) are orthogonal and follow from
/// `key`. Real is float or double; singular values are right to about 10 eps(Real) s_1.
template <typename Real>
void plant_spectrum(std::uint64_t key, std::span<const double> sigma, std::int64_t rows,
                    std::int64_t cols, Real* out);

extern template void plant_spectrum<float>(std::uint64_t, std::span<const double>, std::int64_t,
                                           std::int64_t, float*);
extern template void plant_spectrum<double>(std::uint64_t, std::span<const double>, std::int64_t,
                                            std::int64_t, double*);

}  // namespace vindex::synth
