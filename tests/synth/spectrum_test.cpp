// Planted spectra: recovered from what was made, and where noise leaves them visible.
#include "synth/recipe.hpp"
#include "tests/support/singular_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::synth::spectrum_test {
namespace {

Recipe powerlaw(std::int64_t rows, std::int64_t cols) {
  Recipe recipe;
  recipe.kind = Kind::kPowerlaw;
  recipe.rows = rows;
  recipe.cols = cols;
  recipe.deviation = 0.05;
  recipe.exponent = 0.7;
  recipe.key = 42;
  return recipe;
}

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};

TEST(PlantedSpectrum, IsRecoveredFromTheExactConstruction) {
  for (const Shape shape : {Shape{96, 64},
                            {64, 96},
                            {192, 256},
                            {100, 37},
                            {7, 7},
                            {1, 9},
                            {33, 2},
                            {80, 256},
                            {129, 128}}) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
    const auto planted = planted_singular_values(powerlaw(shape.rows, shape.cols));
    std::vector<double> matrix(static_cast<std::size_t>(shape.rows * shape.cols));
    plant_spectrum(42, planted, shape.rows, shape.cols, matrix.data());
    const auto found = vindex::testing::singular_values(matrix, shape.rows, shape.cols);
    ASSERT_EQ(found.size(), planted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], planted[i], 1e-12 * planted[0]) << i;
    }
  }
}

TEST(PlantedSpectrum, SurvivesTheFloatConstruction) {
  const auto planted = planted_singular_values(powerlaw(300, 200));
  std::vector<float> matrix(300 * 200);
  plant_spectrum(42, planted, 300, 200, matrix.data());
  const auto found = vindex::testing::singular_values(matrix, 300, 200);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], planted[i], 2e-6 * planted[0]) << i;
  }
}

TEST(PlantedSpectrum, HasTheNormThatTheDeviationSays) {
  const Recipe recipe = powerlaw(64, 96);
  double square = 0.0;
  for (const double value : planted_singular_values(recipe)) {
    square += value * value;
  }
  EXPECT_NEAR(std::sqrt(square), recipe.deviation * std::sqrt(64.0 * 96.0), 1e-12);
}

TEST(PlantedSpectrum, SpreadsEveryDirectionOverTheWholeMatrix) {
  // A rank-one matrix: were the mix not dense, rows or columns would be empty.
  const std::vector<double> one = {1.0};
  const std::int64_t rows = 224;
  const std::int64_t cols = 96;
  std::vector<double> matrix(static_cast<std::size_t>(rows * cols));
  plant_spectrum(3, one, rows, cols, matrix.data());
  const auto zeros = std::count_if(matrix.begin(), matrix.end(), [](double v) {
    return std::abs(v) < 1e-3 / std::sqrt(224.0 * 96.0);
  });
  EXPECT_LT(zeros, rows * cols / 20);
}

TEST(DrawnWeights, SpikesStandWhereTheFormulaSays) {
  Recipe recipe;
  recipe.kind = Kind::kSpiked;
  recipe.rows = 600;
  recipe.cols = 400;
  recipe.deviation = 0.05;
  recipe.spikes = 3;
  recipe.first_spike = 4.0;
  recipe.key = 11;
  std::vector<float> weights(static_cast<std::size_t>(recipe.rows * recipe.cols));
  draw_weights(recipe, weights);
  const auto found = vindex::testing::singular_values(weights, recipe.rows, recipe.cols);
  const auto predicted = predicted_spike_values(recipe);
  ASSERT_EQ(predicted.size(), 3U);
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(found[k] / predicted[k], 1.0, 0.03) << k;
  }
  const double edge = recipe.deviation * (std::sqrt(600.0) + std::sqrt(400.0));
  EXPECT_NEAR(found[3] / edge, 1.0, 0.03);
  EXPECT_GT(found[2], 1.1 * found[3]);
}

TEST(DrawnWeights, RowsHaveTheSpreadThatWasAsked) {
  Recipe recipe;
  recipe.kind = Kind::kRowscale;
  recipe.rows = 512;
  recipe.cols = 256;
  recipe.deviation = 0.1;
  recipe.row_spread = 0.4;
  recipe.key = 12;
  std::vector<float> weights(static_cast<std::size_t>(recipe.rows * recipe.cols));
  draw_weights(recipe, weights);
  double sum = 0.0;
  double square = 0.0;
  for (std::int64_t row = 0; row < recipe.rows; ++row) {
    double norm = 0.0;
    for (std::int64_t col = 0; col < recipe.cols; ++col) {
      const double v = weights[static_cast<std::size_t>(row * recipe.cols + col)];
      norm += v * v;
    }
    const double logarithm =
        0.5 * std::log(norm / static_cast<double>(recipe.cols)) - std::log(0.1);
    sum += logarithm;
    square += logarithm * logarithm;
  }
  const double n = static_cast<double>(recipe.rows);
  EXPECT_NEAR(sum / n, 0.0, 0.08);
  EXPECT_NEAR(std::sqrt(square / n - sum * sum / (n * n)), 0.4, 0.06);
}

TEST(DrawnWeights, WeakSpikesAreNotPredicted) {
  Recipe recipe;
  recipe.kind = Kind::kSpiked;
  recipe.rows = 64;
  recipe.cols = 64;
  recipe.spikes = 2;
  recipe.first_spike = 1.5;  // the second has 0.75 < 1 = g^(1/4)
  EXPECT_EQ(predicted_spike_values(recipe).size(), 1U);
}

}  // namespace
}  // namespace vindex::synth::spectrum_test
