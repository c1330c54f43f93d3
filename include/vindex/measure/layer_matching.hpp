// Owns what is read off the similarities of layers: which layers of two models lie at the same
// relative depth, and into how many stages one model falls where neighbours are unlike (analysis
// contract, `vindex cka`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vindex::measure {

/// Layers `a` and `b` (positions from 0) at relative depth `depth` in [0, 1].
struct DepthMatch {
  double depth = 0.0;
  std::size_t a = 0, b = 0;
};

/// Every 5 % from 0 to 1, and so 15, 30, 55 and 85 % of published tables. The position at depth d
/// of n layers is d (n - 1), rounded to the nearest, halves up. Nothing where a side has no layer.
std::vector<DepthMatch> match_depths(std::size_t layers_a, std::size_t layers_b);

/// How many stages layers fall into, and by which threshold.
struct Stages {
  std::int64_t count = 1;
  double median = 0.0;
  double mad = 0.0;        ///< median absolute deviation from the median
  double threshold = 0.0;  ///< median - 3 x 1.4826 x mad
};

/// 1 + the number of `adjacent` values (similarity of a layer and the next one) below the
/// threshold; 1 where the MAD is 0. Nothing where there is no value. NaN is left out.
std::optional<Stages> count_stages(const std::vector<double>& adjacent);

}  // namespace vindex::measure
