// Owns what chance gives where a vector is compared with many: the largest absolute cosine among
// `count` independent random directions of `width` dimensions.
#pragma once

#include <cstdint>

namespace vindex::measure {

/// sqrt(2 ln count / width): the leading term for large count and width. NaN where either is 0. It
/// is above the mean of what is drawn: by 12 % for 1,000 directions of 64, by 6 % for 100,000 of
/// 4096 (docs/lookup.md).
double expected_largest_cosine(std::int64_t count, std::int64_t width);

/// P(abs(cosine) > c) of one random direction: I_{1 - c^2}((width - 1) / 2, 1/2), the regularised
/// incomplete beta function (the square of a coordinate on the sphere has a beta distribution).
double chance_of_cosine(double c, std::int64_t width);

/// P(largest > c) = 1 - (1 - chance_of_cosine(c))^count.
double chance_of_largest_cosine(double c, std::int64_t count, std::int64_t width);

/// The value that the largest stays below with probability `share` (0 < share < 1). NaN where count
/// is 0 or width below 2.
double largest_cosine_quantile(double share, std::int64_t count, std::int64_t width);

}  // namespace vindex::measure
