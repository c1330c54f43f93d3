// What is said of the features of a matrix together, beside sums by hand and known integrals.
#include "commands/lookup/store/feature_sums.hpp"

#include "commands/lookup/store/gate_vector_cells.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <vector>

namespace vindex::commands::feature_sums_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Cells of `sums`, of a matrix of ten features of `width` inputs that begins at 70.
std::vector<double> cells_of(const FeatureSums& sums, std::int64_t width = 5) {
  std::vector<double> cells(kGateVectorCells.size(), -1.0);
  sums.fill(70, 10, width, cells);
  return cells;
}

double cell(const std::vector<double>& cells, std::string_view name) {
  for (std::size_t i = 0; i < kGateVectorCells.size(); ++i) {
    if (kGateVectorCells.at(i).name == name) {
      return cells[i];
    }
  }
  ADD_FAILURE() << name;
  return kNaN;
}

TEST(FeatureSums, CountRowsWithoutADirectionAndAverageTheOthers) {
  FeatureSums sums;
  sums.add({.squares = 9.0, .errors = 0.01}, 3.0, -0.5);
  sums.add({.squares = 25.0, .errors = 0.03}, 5.0, 0.1);
  sums.add({.squares = 16.0, .errors = 0.0}, 4.0, kNaN);  // no column of down_proj
  sums.add({}, 0.0, kNaN);
  sums.add({.squares = kNaN, .errors = kNaN}, kNaN, 0.9);
  const std::vector<double> cells = cells_of(sums);
  EXPECT_EQ(cell(cells, "first"), 70.0);
  EXPECT_EQ(cell(cells, "features"), 10.0);
  EXPECT_EQ(cell(cells, "zero_features"), 1.0);
  EXPECT_EQ(cell(cells, "not_finite_features"), 1.0);
  EXPECT_DOUBLE_EQ(cell(cells, "norm_mean"), 4.0);
  EXPECT_DOUBLE_EQ(cell(cells, "gate_down_cosine_abs_mean"), 0.3);
  EXPECT_DOUBLE_EQ(cell(cells, "rounding_error"), std::sqrt(0.04 / 50.0));
}

TEST(FeatureSums, OfNothingAreNoNumbers) {
  const std::vector<double> cells = cells_of(FeatureSums());
  for (const char* const name : {"norm_mean", "gate_down_cosine_abs_mean", "rounding_error"}) {
    EXPECT_TRUE(std::isnan(cell(cells, name))) << name;
  }
  EXPECT_EQ(cell(cells, "zero_features"), 0.0);
}

// The mean of |t| over the density (1 - t^2)^((d-3)/2) of a coordinate of the sphere.
TEST(FeatureSums, TheNullIsTheMeanOfACoordinateOfTheSphere) {
  EXPECT_NEAR(cell(cells_of({}, 1), "gate_down_cosine_abs_mean_null"), 1.0, 1e-12);
  EXPECT_NEAR(cell(cells_of({}, 2), "gate_down_cosine_abs_mean_null"), 2.0 / std::numbers::pi,
              1e-12);
  for (const int width : {3, 4, 9, 64, 1001}) {
    double density = 0.0, moment = 0.0;
    constexpr int kSteps = 200000;
    for (int i = 0; i < kSteps; ++i) {  // by the angle: cos(a)^(d-2) da, smooth at both ends
      const double angle = (i + 0.5) * 0.5 * std::numbers::pi / kSteps;
      const double weight = std::pow(std::cos(angle), width - 2);
      density += weight;
      moment += weight * std::sin(angle);
    }
    EXPECT_NEAR(cell(cells_of({}, width), "gate_down_cosine_abs_mean_null"), moment / density, 1e-8)
        << width;
  }
}

}  // namespace
}  // namespace vindex::commands::feature_sums_test
