// Owns counts by chance: draws from the binomial law, and tails of the Poisson law.
#pragma once

#include "draw_stream.hpp"

#include <cstdint>

namespace vindex::measure {

/// A draw from the binomial law of `trials` trials of chance `chance` (cut to 0 .. 1), exact for
/// any size: inversion while fewer than ten are expected, else rejection (BTRS: Hörmann, "The
/// generation of binomial random variates", J. Statist. Comput. Simul. 46, 1993).
std::int64_t draw_binomial(std::int64_t trials, double chance, DrawStream& draws);

/// Twice the smaller of P(X <= count) and P(X >= count), at most 1, of X Poisson of `mean`. For
/// means that are small: sums of a few terms. NaN for a mean that is not positive and finite.
double poisson_tail(double count, double mean);

/// ln n!, by Stirling's formula and its rest; n >= 0.
double log_factorial(double n);

}  // namespace vindex::measure
