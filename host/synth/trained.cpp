// Owns the recipe at a place within a role's measured ranges, and the law of its singular values.
#include "trained.hpp"

#include "portable_math.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vindex::synth {
namespace {

constexpr double kTailShare = 0.03;
// Of L where noise has its hard edge: the tail below begins above s_1/condition for every shape.
constexpr double kMinEdge = 0.05;

double between(double least, double most, double place) {
  return least * portable_pow(most / least, place);
}

}  // namespace

Recipe trained_recipe(const TrainedRole& role, std::int64_t rows, std::int64_t cols, double place) {
  Recipe recipe;
  recipe.kind = Kind::kTrained;
  recipe.rows = rows;
  recipe.cols = cols;
  recipe.deviation = 1.0 / std::sqrt(static_cast<double>(cols));
  recipe.exponent = role.exponent;
  recipe.gap = between(role.min_gap, role.max_gap, place);
  recipe.condition = between(role.min_condition, role.max_condition, place);
  return recipe;
}

std::vector<double> trained_shape(const Recipe& recipe) {
  const auto p = static_cast<std::size_t>(std::min(recipe.rows, recipe.cols));
  std::vector<double> shape(p, 1.0);
  if (p == 1) {
    return shape;
  }
  const auto count = static_cast<double>(p);
  const double root = std::sqrt(count / static_cast<double>(std::max(recipe.rows, recipe.cols)));
  const double edge = std::max((1.0 - root) / (1.0 + root), kMinEdge);
  const auto tail = std::max<std::size_t>(1, static_cast<std::size_t>(kTailShare * count + 0.5));
  const std::size_t bulk = p - tail;
  for (std::size_t i = 2; i <= bulk; ++i) {
    const double level = 1.0 - (1.0 - edge) * (static_cast<double>(i) - 0.5) / count;
    shape[i - 1] =
        portable_pow(0.5 * static_cast<double>(i), -recipe.exponent) * level / recipe.gap;
  }
  const double start = shape[bulk - 1];
  const double whole = static_cast<double>(tail) + 0.5;
  const double fall = recipe.condition * start;
  expects(fall > 1.0, "trained_shape: a condition that the bulk leaves room for");
  const double power = portable_log(fall) / portable_log(2.0 * whole);
  for (std::size_t i = bulk + 1; i < p; ++i) {
    const double distance = static_cast<double>(p - i) + 0.5;
    shape[i - 1] = start * portable_pow(distance / whole, power);
  }
  shape[p - 1] = 1.0 / recipe.condition;
  return shape;
}

}  // namespace vindex::synth
