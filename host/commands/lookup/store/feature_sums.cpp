// Owns the sums, and the null of the cosines.
#include "feature_sums.hpp"

#include "gate_vector_cells.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace vindex::commands {

namespace {

/// Mean absolute cosine of independent directions in `width` dimensions.
double random_cosine(std::int64_t width) {
  const auto d = static_cast<double>(width);
  return std::exp(std::lgamma(d / 2) - std::lgamma((d + 1) / 2)) / std::sqrt(std::numbers::pi);
}

double mean(double sum, std::int64_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

}  // namespace

void FeatureSums::add(const EncodedRow& row, double norm, double cosine) {
  if (!(norm > 0.0)) {
    ++(norm == 0.0 ? zero_ : not_finite_);
    return;
  }
  ++directions_;
  norms_ += norm;
  squares_ += row.squares;
  errors_ += row.errors;
  if (!std::isnan(cosine)) {
    ++cosine_count_;
    cosines_ += std::abs(cosine);
  }
}

void FeatureSums::fill(std::int64_t first, std::int64_t count, std::int64_t width,
                       std::vector<double>& cells) const {
  cells[gate_vector_cell("first")] = static_cast<double>(first);
  cells[gate_vector_cell("features")] = static_cast<double>(count);
  cells[gate_vector_cell("zero_features")] = static_cast<double>(zero_);
  cells[gate_vector_cell("not_finite_features")] = static_cast<double>(not_finite_);
  cells[gate_vector_cell("norm_mean")] = mean(norms_, directions_);
  cells[gate_vector_cell("gate_down_cosine_abs_mean")] = mean(cosines_, cosine_count_);
  cells[gate_vector_cell("gate_down_cosine_abs_mean_null")] = random_cosine(width);
  cells[gate_vector_cell("rounding_error")] =
      std::sqrt(mean(errors_, directions_) / mean(squares_, directions_));
}

}  // namespace vindex::commands
