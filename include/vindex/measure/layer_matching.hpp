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

/// Similarity of a layer and the next one, with its standard error (measure/jackknife.hpp).
struct Adjacent {
  double value = 0.0;
  double error = 0.0;
};

/// How many stages layers fall into, and by which thresholds.
struct Stages {
  std::int64_t count = 1;           ///< 1 + breaks
  std::vector<std::size_t> breaks;  ///< positions whose value is a break, ascending
  double median = 0.0;
  double mad = 0.0;        ///< median absolute deviation from the median, without the first breaks
  double threshold = 0.0;  ///< median - 3 x 1.4826 x mad: what every break is below at least
};

/// A position breaks where its value lies below
///   median - max(3 x 1.4826 x MAD, 3 x its own standard error):
/// below the others by more than they scatter, and by more than it is known. Breaks widen the MAD
/// that is to find them, so it is taken again without those that it found, once. Nothing where
/// there is no value, or where one of them or its error is NaN.
std::optional<Stages> count_stages(const std::vector<Adjacent>& adjacent);

}  // namespace vindex::measure
