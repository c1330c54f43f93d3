// The reduction that ends early: that it is one, and that the bounds of the largest eigenvalues
// hold wherever it ends, against eigenvalues that are known or LAPACK's.
#include "cpu/top/partial_band.hpp"

#include "cpu/tridiagonal/simd_bisection.hpp"
#include "cpu/tridiagonal/symmetric_eigenvalues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::cpu::partial_band_test {
namespace {

constexpr std::size_t kTop = 64;

/// Q diag(values) Q^T, Q a product of `reflectors` random Householder reflections, in float64.
std::vector<double> matrix_with(const std::vector<double>& values, int reflectors, unsigned seed) {
  const std::size_t n = values.size();
  std::vector<double> matrix(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    matrix[i * n + i] = values[i];
  }
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v(n);
  std::vector<double> product(n);
  for (int r = 0; r < reflectors; ++r) {
    for (double& x : v) {
      x = normal(generator);
    }
    const double norm = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
    for (double& x : v) {
      x /= norm;
    }
    for (std::size_t i = 0; i < n; ++i) {
      product[i] = std::inner_product(v.begin(), v.end(), matrix.begin() + i * n, 0.0);
    }
    const double overlap = std::inner_product(v.begin(), v.end(), product.begin(), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        matrix[i * n + j] -=
            2.0 * (product[i] * v[j] + v[i] * product[j]) - 4.0 * overlap * v[i] * v[j];
      }
    }
  }
  return matrix;
}

std::vector<float> narrowed(const std::vector<double>& matrix) {
  return {matrix.begin(), matrix.end()};
}

/// Looks at one place and keeps what it sees, or never looks.
class Onlooker : public TridiagonalProbe {
 public:
  explicit Onlooker(std::int64_t place) : place_(place) {}
  void begin(int exponent) override { unit = std::ldexp(1.0, exponent); }
  void end(std::span<const double> /*band*/) override { ended = true; }
  bool wants_rest(std::span<const double> /*band*/, std::int64_t columns) override {
    return columns == place_;
  }
  float* room_for_rest(std::int64_t order) override {
    rest.resize(static_cast<std::size_t>(order * order));
    return rest.data();
  }
  bool is_enough(std::span<const double> seen, std::int64_t columns, std::int64_t order) override {
    band.assign(seen.begin(), seen.end());
    left = order;
    return columns == place_;
  }

  double unit = 0.0;
  bool ended = false;
  std::int64_t left = 0;
  std::vector<double> band;
  std::vector<float> rest;

 private:
  std::int64_t place_;
};

/// Memory that tridiagonalise_in_part() wants, on a boundary of 64 bytes.
class Room {
 public:
  explicit Room(std::int64_t n)
      : bytes_(tridiagonalise_workspace_bytes(n, sizeof(float))), buffer_(bytes_ + 64) {}
  std::span<std::byte> span() {
    void* start = buffer_.data();
    std::size_t room = buffer_.size();
    return {static_cast<std::byte*>(std::align(64, bytes_, start, room)), bytes_};
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> buffer_;
};

std::vector<double> law(std::size_t n, const std::function<double(std::size_t)>& value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(value(i));
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> all;
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= best_simd_level()) {
      all.push_back(level);
    }
  }
  return all;
}

TEST(PartialBand, WithoutAnEndItIsAReduction) {
  for (const SimdLevel level : levels()) {
    for (const std::int64_t n : {40, 129, 200}) {
      const auto size = static_cast<std::size_t>(n);
      const std::vector<double> values =
          law(size, [](std::size_t i) { return 3.0 / (1.0 + static_cast<double>(i)); });
      const std::vector<float> matrix = narrowed(matrix_with(values, 3, 1));
      std::vector<double> d(size), e(size), found(size);
      Room room(n);
      Onlooker never(-1);
      EXPECT_EQ(tridiagonalise_in_part(matrix.data(), n, n, d, e, room.span(), never, level), n);
      EXPECT_TRUE(never.ended);
      tridiagonal_eigenvalues(d, e, found, level);
      for (std::size_t i = 0; i < size; ++i) {
        EXPECT_NEAR(found[size - 1 - i], values[i], 3e-6) << n << " at " << i;
      }
    }
  }
}

TEST(PartialBand, BandCouplingAndRestAreTheMatrix) {
  for (const SimdLevel level : levels()) {
    for (const std::int64_t n : {80, 150, 203}) {
      for (const std::int64_t columns : {16, 48, 64}) {
        const auto size = static_cast<std::size_t>(n);
        const std::vector<double> values =
            law(size, [](std::size_t i) { return std::pow(0.97, static_cast<double>(i)); });
        const std::vector<float> matrix = narrowed(matrix_with(values, 2, 5));
        std::vector<double> d(size), e(size);
        Room room(n);
        Onlooker seen(columns);
        ASSERT_EQ(tridiagonalise_in_part(matrix.data(), n, n, d, e, room.span(), seen, level),
                  columns);
        EXPECT_FALSE(seen.ended);
        const std::int64_t order = columns + seen.left;
        std::vector<double> whole(static_cast<std::size_t>(order * order), 0.0);
        for (std::int64_t i = 0; i < order; ++i) {
          for (std::int64_t j = 0; j <= i; ++j) {
            double value = 0.0;
            if (j >= columns) {
              value = static_cast<double>(seen.rest[(i - columns) * seen.left + j - columns]);
            } else if (i - j <= kBand) {
              value = seen.band[j * kBandStride + i];
            }
            whole[i * order + j] = whole[j * order + i] = seen.unit * value;
          }
        }
        const std::vector<double> found = symmetric_eigenvalues(whole, order);
        for (std::size_t i = 0; i < size; ++i) {
          EXPECT_NEAR(found[found.size() - 1 - i], values[i], 3e-6) << n << " at " << i;
        }
      }
    }
  }
}

struct Case {
  std::string name;
  std::vector<double> values;
};

std::vector<Case> cases(std::size_t n) {
  const auto order = static_cast<double>(n);
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const std::function<double(std::size_t)>& value) {
    all.push_back({name, law(n, value)});
  };
  add("power law", [](std::size_t i) { return std::pow(1.0 + static_cast<double>(i), -1.5); });
  add("geometric", [&](std::size_t i) { return std::pow(1e-6, static_cast<double>(i) / order); });
  add("arithmetic", [&](std::size_t i) { return 1.0 - static_cast<double>(i) / order; });
  add("dense edge", [&](std::size_t i) {
    const double x = static_cast<double>(i) / order;
    return 1.0 - std::pow(x, 2.0 / 3.0);
  });
  add("equal values around the 64th", [](std::size_t i) {
    return i < 50 ? 2.0 - 0.01 * static_cast<double>(i) : i < 90 ? 1.0 : 0.1;
  });
  add("equal values from the first on", [](std::size_t i) { return i < 100 ? 1.0 : 0.2; });
  add("ten values fifty times",
      [](std::size_t i) { return i < 500 ? 1.0 / (1.0 + static_cast<double>(i / 50)) : 0.01; });
  add("forty near one another", [](std::size_t i) {
    return i < 40 ? 1.0 + 1e-4 * static_cast<double>(i) : 1.0 / static_cast<double>(i);
  });
  for (const double width : {1e-5, 1e-3, 1e-2}) {
    add("sixty within " + std::to_string(width), [=](std::size_t i) {
      return i < 60 ? 1.0 - width * static_cast<double>(i) / 60.0
                    : 0.9 / static_cast<double>(i - 58);
    });
  }
  add("all equal", [](std::size_t) { return 1.0; });
  add("thirty and nothing", [](std::size_t i) { return i < 30 ? 1.0 : 0.0; });
  add("one far above",
      [](std::size_t i) { return i == 0 ? 1e4 : 1.0 / (1.0 + 0.01 * static_cast<double>(i)); });
  return all;
}

statistics::SquareErrors no_errors(double, std::span<const double> largest) {
  return {.each = std::vector<double>(largest.size(), 0.0)};
}

TEST(PartialBand, BoundsHoldWhereverItEnds) {
  constexpr std::int64_t kOrder = 700;
  int early = 0;
  for (const Case& one : cases(kOrder)) {
    for (const int reflectors : {0, 3}) {
      SCOPED_TRACE(one.name + " by " + std::to_string(reflectors));
      std::vector<float> matrix = narrowed(matrix_with(one.values, reflectors, 11));
      const double trace = std::accumulate(one.values.begin(), one.values.end(), 0.0);
      const double squares =
          std::inner_product(one.values.begin(), one.values.end(), one.values.begin(), 0.0);
      Workspace workspace(0);
      // Most in a cluster at the top (simd_tridiagonal.hpp).
      const double rounding = 1e-6 * one.values.front();
      TopProbe probe({.order = kOrder,
                      .sum_squares = trace,
                      .norm_squared = squares,
                      .room = matrix.data(),
                      .errors = no_errors},
                     workspace);
      std::vector<double> d(kOrder), e(kOrder);
      Room room(kOrder);
      const std::int64_t columns =
          tridiagonalise_in_part(matrix.data(), kOrder, kOrder, d, e, room.span(), probe);
      EXPECT_GT(probe.passes_norm_squared(), squares);
      if (columns == kOrder) {
        continue;
      }
      ++early;
      double least = 0.0;
      double most = 0.0;
      double exact = 0.0;
      for (std::size_t i = 0; i < kTop; ++i) {
        EXPECT_LE(probe.lower()[i], one.values[i] + 4.0 * rounding) << "value " << i;
        EXPECT_GE(probe.upper()[i], one.values[i] - 4.0 * rounding) << "value " << i;
        least += probe.lower()[i];
        most += probe.upper()[i];
        exact += one.values[i];
      }
      EXPECT_LE(least, exact + kTop * rounding);
      EXPECT_GE(most, exact - kTop * rounding);
      EXPECT_LE(most - least, 1e-5 * trace);
    }
  }
  EXPECT_GE(early, 8) << "what is tested is an early end";
}

TEST(PartialBand, RoundingThatTakesAllThePromiseLeavesNoEarlyEnd) {
  constexpr std::int64_t kOrder = 512;
  const std::vector<double> values =
      law(kOrder, [](std::size_t i) { return std::pow(1.0 + static_cast<double>(i), -1.5); });
  for (const double error : {0.0, 1e-3}) {
    std::vector<float> matrix = narrowed(matrix_with(values, 2, 3));
    Workspace workspace(0);
    TopProbe probe(
        {.order = kOrder,
         .sum_squares = std::accumulate(values.begin(), values.end(), 0.0),
         .norm_squared = std::inner_product(values.begin(), values.end(), values.begin(), 0.0),
         .room = matrix.data(),
         .errors =
             [=](double, std::span<const double> largest) {
               return statistics::SquareErrors{.each = std::vector<double>(largest.size(), error)};
             }},
        workspace);
    std::vector<double> d(kOrder), e(kOrder);
    Room room(kOrder);
    const std::int64_t columns =
        tridiagonalise_in_part(matrix.data(), kOrder, kOrder, d, e, room.span(), probe);
    EXPECT_EQ(columns == kOrder, error > 0.0);
  }
}

}  // namespace
}  // namespace vindex::cpu::partial_band_test
