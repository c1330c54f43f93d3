// Owns what a row of /gate/ says of the features of a matrix together.
#pragma once

#include "vector_writer.hpp"

#include <cstdint>
#include <vector>

namespace vindex::commands {

/// Sums over features, in their order.
class FeatureSums {
 public:
  /// `norm`: NaN of a row that is not finite; `cosine`: with its column of down_proj, or NaN.
  void add(const EncodedRow& row, double norm, double cosine);
  /// Sets every cell (gate_vector_cells.hpp) of a matrix of `count` features from `first` on, of
  /// `width` inputs.
  void fill(std::int64_t first, std::int64_t count, std::int64_t width,
            std::vector<double>& cells) const;

 private:
  std::int64_t zero_ = 0, not_finite_ = 0, directions_ = 0, cosine_count_ = 0;
  double norms_ = 0.0, cosines_ = 0.0, squares_ = 0.0, errors_ = 0.0;
};

}  // namespace vindex::commands
