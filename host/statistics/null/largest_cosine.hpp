// Owns what chance gives where a vector is compared with many: the largest cosine, by size or of
// one sign, among `count` independent random directions of `width` dimensions. Exact: a coordinate
// of a random direction has a square of beta law.
#pragma once

#include <cstdint>

namespace vindex::statistics {

/// What is the largest: abs(cosine), or the cosine of one sign (both signs have one law).
enum class CosineSides : std::uint8_t { kBoth, kOne };

/// P(abs(cosine) > c) of one random direction: I_{1 - c^2}((width - 1) / 2, 1/2), the regularised
/// incomplete beta function; of one side P(cosine > c), -1 <= c <= 1.
double chance_of_cosine(double c, std::int64_t width, CosineSides sides = CosineSides::kBoth);

/// P(largest > c) = 1 - (1 - chance_of_cosine(c))^count.
double chance_of_largest_cosine(double c, std::int64_t count, std::int64_t width,
                                CosineSides sides = CosineSides::kBoth);

/// The value that the largest stays below with probability `share` (0 < share < 1). NaN where count
/// is 0 or width below 2.
double largest_cosine_quantile(double share, std::int64_t count, std::int64_t width,
                               CosineSides sides = CosineSides::kBoth);

/// Mean of the largest, to 1e-6 of it (quadrature). NaN as above.
double expected_largest_cosine(std::int64_t count, std::int64_t width,
                               CosineSides sides = CosineSides::kBoth);

}  // namespace vindex::statistics
