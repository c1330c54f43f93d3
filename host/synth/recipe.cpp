// Owns drawing one matrix: planted values, spikes, row scales, and what they should give.
#include "recipe.hpp"

#include "portable_math.hpp"
#include "random.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vindex::synth {

namespace {

double short_side(const Recipe& recipe) {
  return static_cast<double>(std::min(recipe.rows, recipe.cols));
}

double long_side(const Recipe& recipe) {
  return static_cast<double>(std::max(recipe.rows, recipe.cols));
}

void draw_planted(const Recipe& recipe, std::span<float> out) {
  const std::vector<double> sigma = planted_singular_values(recipe);
  if (recipe.rows * recipe.cols > kExactWeights) {
    plant_spectrum(recipe.key, sigma, recipe.rows, recipe.cols, out.data());
    return;
  }
  std::vector<double> exact(out.size());
  plant_spectrum(recipe.key, sigma, recipe.rows, recipe.cols, exact.data());
  std::transform(exact.begin(), exact.end(), out.begin(),
                 [](double value) { return static_cast<float>(value); });
}

// `count` orthonormal vectors of `length`, one after the other: Gram-Schmidt, twice, on normals.
std::vector<float> orthonormal(std::uint64_t key, Stream stream, int count, std::int64_t length) {
  const auto n = static_cast<std::size_t>(length);
  std::vector<float> drawn(n * static_cast<std::size_t>(count));
  fill_normals(key, stream, drawn);
  std::vector<double> basis(drawn.begin(), drawn.end());
  for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
    double* const v = basis.data() + k * n;
    for (std::size_t j = 0; j < 2 * k; ++j) {
      const double* const u = basis.data() + (j % k) * n;
      double dot = 0.0;
      for (std::size_t i = 0; i < n; ++i) {
        dot += u[i] * v[i];
      }
      for (std::size_t i = 0; i < n; ++i) {
        v[i] -= dot * u[i];
      }
    }
    double square = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      square += v[i] * v[i];
    }
    const double scale = 1.0 / std::sqrt(square);
    for (std::size_t i = 0; i < n; ++i) {
      v[i] *= scale;
    }
  }
  std::transform(basis.begin(), basis.end(), drawn.begin(),
                 [](double value) { return static_cast<float>(value); });
  return drawn;
}

void add_spikes(const Recipe& recipe, std::span<float> out) {
  const auto left = orthonormal(recipe.key, Stream::kLeftVectors, recipe.spikes, recipe.rows);
  const auto right = orthonormal(recipe.key, Stream::kRightVectors, recipe.spikes, recipe.cols);
  const double unit = recipe.deviation * std::sqrt(long_side(recipe));
  for (std::int64_t row = 0; row < recipe.rows; ++row) {
    float* const to = out.data() + row * recipe.cols;
    for (int k = 0; k < recipe.spikes; ++k) {
      const auto factor = static_cast<float>(recipe.spike_strength(k) * unit) *
                          left[static_cast<std::size_t>(k * recipe.rows + row)];
      const float* const v = right.data() + k * recipe.cols;
      for (std::int64_t col = 0; col < recipe.cols; ++col) {
        to[col] += factor * v[col];
      }
    }
  }
}

void scale_rows(const Recipe& recipe, std::span<float> out) {
  std::vector<float> normals(static_cast<std::size_t>(recipe.rows));
  fill_normals(recipe.key, Stream::kRowScales, normals);
  for (std::int64_t row = 0; row < recipe.rows; ++row) {
    const double z = normals[static_cast<std::size_t>(row)];
    const auto factor = static_cast<float>(portable_exp(recipe.row_spread * z));
    for (float& value : out.subspan(static_cast<std::size_t>(row * recipe.cols),
                                    static_cast<std::size_t>(recipe.cols))) {
      value *= factor;
    }
  }
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kGaussian:
      return "gaussian";
    case Kind::kPowerlaw:
      return "powerlaw";
    case Kind::kSpiked:
      return "spiked";
    case Kind::kRowscale:
      return "rowscale";
    case Kind::kTrained:
      return "trained";
    case Kind::kNormWeight:
      return "norm";
    case Kind::kBias:
      return "bias";
  }
  expects(false, "kind_name: a kind of the enumeration");
  return {};
}

double Recipe::spike_strength(int k) const {
  return first_spike * (1.0 - 0.5 * k / std::max(spikes - 1, 1));
}

std::vector<double> planted_singular_values(const Recipe& recipe) {
  std::vector<double> sigma;
  if (recipe.kind == Kind::kTrained) {
    sigma = trained_shape(recipe);
  } else if (recipe.kind == Kind::kPowerlaw) {
    sigma.resize(static_cast<std::size_t>(std::min(recipe.rows, recipe.cols)));
    for (std::size_t i = 0; i < sigma.size(); ++i) {
      sigma[i] = portable_pow(static_cast<double>(i + 1), -recipe.exponent);
    }
  } else {
    return {};
  }
  double square = 0.0;
  for (const double value : sigma) {
    square += value * value;
  }
  const double norm = recipe.deviation * std::sqrt(short_side(recipe) * long_side(recipe));
  const double scale = norm / std::sqrt(square);
  for (double& value : sigma) {
    value *= scale;
  }
  return sigma;
}

std::vector<double> predicted_spike_values(const Recipe& recipe) {
  std::vector<double> values;
  const double g = short_side(recipe) / long_side(recipe);
  for (int k = 0; recipe.kind == Kind::kSpiked && k < recipe.spikes; ++k) {
    const double t2 = recipe.spike_strength(k) * recipe.spike_strength(k);
    if (t2 * t2 > g) {
      values.push_back(recipe.deviation * std::sqrt(long_side(recipe)) *
                       std::sqrt((1.0 + t2) * (g + t2) / t2));
    }
  }
  return values;
}

void draw_weights(const Recipe& recipe, std::span<float> out) {
  expects(static_cast<std::int64_t>(out.size()) == recipe.rows * recipe.cols,
          "draw_weights: rows x cols floats");
  if (recipe.kind == Kind::kPowerlaw || recipe.kind == Kind::kTrained) {
    draw_planted(recipe, out);
    return;
  }
  fill_normals(recipe.key, Stream::kEntries, out);
  const auto deviation = static_cast<float>(recipe.deviation);
  const float offset = recipe.kind == Kind::kNormWeight ? 1.0F : 0.0F;
  for (float& value : out) {
    value = value * deviation + offset;
  }
  if (recipe.kind == Kind::kSpiked) {
    add_spikes(recipe, out);
  } else if (recipe.kind == Kind::kRowscale) {
    scale_rows(recipe, out);
  }
}

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
