// The spectra of the kind `trained`: the law by hand, its limits for every shape, and the figures
// of a trained mixture that it stands for.
#include "synth/make_model.hpp"
#include "synth/recipe.hpp"
#include "tests/support/singular_values.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::synth::trained_test {
namespace {

double stable_rank(const std::vector<double>& shape) {
  double square = 0.0;
  for (const double value : shape) {
    square += value * value;
  }
  return square / (shape.front() * shape.front());
}

TEST(TrainedSpectrum, IsTheLawByHand) {
  Recipe recipe;
  recipe.kind = Kind::kTrained;
  recipe.rows = 4;
  recipe.cols = 4;
  recipe.exponent = 1.0;
  recipe.gap = 2.0;
  recipe.condition = 1000.0;
  const auto square = trained_shape(recipe);
  ASSERT_EQ(square.size(), 4U);
  EXPECT_EQ(square[0], 1.0);
  EXPECT_NEAR(square[1], (1.0 - 0.95 * 1.5 / 4.0) / 2.0, 1e-15);
  EXPECT_NEAR(square[2], (1.0 - 0.95 * 2.5 / 4.0) / 1.5 / 2.0, 1e-15);
  EXPECT_EQ(square[3], 1e-3);  // the tail is one value

  recipe.rows = 100;
  recipe.cols = 400;  // g = 1/4: noise ends at a third of where it begins; three values below
  const auto wide = trained_shape(recipe);
  const double bulk_end = (1.0 - 2.0 / 3.0 * 96.5 / 100.0) / 48.5 / 2.0;
  EXPECT_NEAR(wide[96], bulk_end, 1e-15);
  const double power = std::log(1000.0 * bulk_end) / std::log(7.0);
  EXPECT_NEAR(wide[97], bulk_end * std::pow(2.5 / 3.5, power), 1e-15);
  EXPECT_NEAR(wide[98], bulk_end * std::pow(1.5 / 3.5, power), 1e-15);
  EXPECT_EQ(wide[99], 1e-3);
  EXPECT_NEAR(bulk_end * std::pow(0.5 / 3.5, power), 1e-3, 1e-15);
}

// 2^17 is the longest side of the largest square matrix that a spec may name.
TEST(TrainedSpectrum, DescendsToItsConditionForEveryShape) {
  for (const TrainedRole& role : kTrainedRoles) {
    for (const double place : {0.0, 0.5, 1.0}) {
      for (const std::int64_t p : {1, 2, 3, 17, 33, 256, 2048, 4096, 1 << 17}) {
        for (const std::int64_t n : {p, p + p / 8, 2 * p, 7 * p / 2, 64 * p}) {
          SCOPED_TRACE(std::string(role.projection) + " " + std::to_string(p) + " " +
                       std::to_string(n));
          const Recipe recipe = trained_recipe(role, n, p, place);
          EXPECT_GE(recipe.condition, 1e3 * (1.0 - 1e-12));
          EXPECT_LE(recipe.condition, 1e5);
          const auto shape = trained_shape(recipe);
          ASSERT_EQ(shape.size(), static_cast<std::size_t>(p));
          EXPECT_EQ(shape.front(), 1.0);
          EXPECT_TRUE(std::is_sorted(shape.rbegin(), shape.rend(),
                                     [](double a, double b) { return a <= b; }) ||
                      p == 1);
          if (p > 1) {
            EXPECT_NEAR(shape.back() * recipe.condition, 1.0, 1e-14);
          }
          EXPECT_EQ(shape, trained_shape(trained_recipe(role, p, n, place)));  // turned
        }
      }
    }
  }
}

// Routed experts of the trained mixture, 27 of each role, 256 x 256: least and most found there.
struct Found {
  std::string_view projection;
  double min_rank, max_rank;            // stable
  double min_sixteenth, max_sixteenth;  // s_1/s_16
};

TEST(TrainedSpectrum, LooksLikeTheRolesOfATrainedMixture) {
  for (const Found& found :
       {Found{"gate_proj", 2.1, 11.3, 2.3, 8.4}, Found{"up_proj", 8.9, 22.4, 1.8, 2.7},
        Found{"down_proj", 4.1, 16.9, 1.7, 4.2}}) {
    SCOPED_TRACE(found.projection);
    const auto* const role =
        std::find_if(kTrainedRoles.begin(), kTrainedRoles.end(),
                     [&](const TrainedRole& one) { return one.projection == found.projection; });
    ASSERT_NE(role, kTrainedRoles.end());
    for (const double place : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const auto shape = trained_shape(trained_recipe(*role, 256, 256, place));
      constexpr double kSlack = 1.3;
      EXPECT_GT(stable_rank(shape), found.min_rank / kSlack);
      EXPECT_LT(stable_rank(shape), found.max_rank * kSlack);
      EXPECT_GT(shape[0] / shape[15], found.min_sixteenth / kSlack);
      EXPECT_LT(shape[0] / shape[15], found.max_sixteenth * kSlack);
      EXPECT_GT(shape[0] / shape[128], 4.9);
      EXPECT_LT(shape[0] / shape[128], 30.0);
      const auto small =
          std::count_if(shape.begin(), shape.end(), [](double s) { return s < 5e-3; });
      EXPECT_GE(small, 2);  // a few per cent of 256
      EXPECT_LE(small, 18);
      // The smallest spread over one to two decades.
      EXPECT_GT(shape[247] / shape[255], 5.0);
      EXPECT_LT(shape[247] / shape[255], 500.0);
    }
  }
}

TEST(TrainedSpectrum, AMatrixOfItHasThePlantedValues) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>(192, 192), {300, 96}, {96, 300}}) {
    std::vector<float> weights(static_cast<std::size_t>(rows * cols));
    draw_matrix("trained", 3, rows, cols, weights);
    const Recipe recipe = trained_recipe(kTrainedRoles[2], rows, cols, 0.5);
    const auto planted = planted_singular_values(recipe);
    const auto found = vindex::testing::singular_values(weights, rows, cols);
    ASSERT_EQ(found.size(), planted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], planted[i], 2e-7 * planted[0]) << i;
    }
    EXPECT_NEAR(found.front() / found.back() / recipe.condition, 1.0, 2e-3);
  }
}

TEST(TrainedSpectrum, AMatrixFollowsFromItsSeedAlone) {
  std::vector<float> first(64 * 48);
  std::vector<float> second(first.size());
  draw_matrix("trained", 1, 64, 48, first);
  draw_matrix("trained", 1, 64, 48, second);
  EXPECT_EQ(first, second);
  draw_matrix("trained", 2, 64, 48, second);
  EXPECT_NE(first, second);
  EXPECT_THROW(draw_matrix("flat", 1, 64, 48, second), UsageError);
}

}  // namespace
}  // namespace vindex::synth::trained_test
