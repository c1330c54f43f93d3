// The squared singular values of small bidiagonal matrices: their sum, their product, values that
// are known, and that no lane depends on another one or on the processor.
#include "statistics/null/bidiagonal_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

namespace vindex::statistics::bidiagonal_draws_test {
namespace {

constexpr std::size_t kLanes = BidiagonalDraws::kLanes;

/// As noise has them; `spread` makes some tiny, so that lanes need other numbers of steps.
BidiagonalDraws random_draws(std::size_t size, std::uint64_t seed, double spread = 1.0) {
  std::mt19937_64 engine(seed);
  std::gamma_distribution<double> law(0.5 * static_cast<double>(size), 2.0);
  std::uniform_real_distribution<double> power(0.0, 1.0);
  BidiagonalDraws draws{.size = size};
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      draws.squares[i][lane] = law(engine) * std::pow(spread, power(engine));
      draws.above[i][lane] = i + 1 < size ? law(engine) * std::pow(spread, power(engine)) : 0.0;
    }
  }
  return draws;
}

std::vector<double> lane_of(const BidiagonalDraws& draws, std::size_t lane) {
  std::vector<double> values;
  for (std::size_t i = 0; i < draws.size; ++i) {
    values.push_back(draws.squares[i][lane]);
  }
  std::sort(values.begin(), values.end());
  return values;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

TEST(BidiagonalDraws, KeepSumAndProductHoweverSmallValuesAre) {
  for (const double spread : {1.0, 1e-30}) {
    for (const std::size_t size : {1U, 2U, 3U, 8U, 40U, 63U}) {
      const BidiagonalDraws before = random_draws(size, size, spread);
      BidiagonalDraws after = before;
      find_squared_values(after);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        double sum = 0.0;
        double log_product = 0.0;
        double found_log_product = 0.0;
        for (std::size_t i = 0; i < size; ++i) {
          sum += before.squares[i][lane] + before.above[i][lane];
          log_product += std::log(before.squares[i][lane]);
          found_log_product += std::log(after.squares[i][lane]);
        }
        double found = 0.0;
        for (const double value : lane_of(after, lane)) {
          found += value;
        }
        EXPECT_NEAR(found, sum, 1e-13 * static_cast<double>(size) * sum);
        // The smallest value with its digits: one that is wrong by itself would show here alone.
        EXPECT_NEAR(found_log_product, log_product, 1e-12 * static_cast<double>(size)) << size;
      }
    }
  }
}

TEST(BidiagonalDraws, FindKnownValues) {
  // Ones on both diagonals: singular values 2 cos(k pi / (2 n + 1)).
  constexpr std::size_t kSize = 20;
  BidiagonalDraws draws{.size = kSize};
  for (std::size_t i = 0; i < kSize; ++i) {
    draws.squares[i].fill(1.0);
    draws.above[i].fill(i + 1 < kSize ? 1.0 : 0.0);
  }
  find_squared_values(draws);
  const std::vector<double> found = lane_of(draws, kLanes - 1);
  for (std::size_t k = 1; k <= kSize; ++k) {
    const double value =
        2.0 * std::cos(static_cast<double>(k) * std::numbers::pi / (2.0 * kSize + 1.0));
    EXPECT_NEAR(found[kSize - k] / (value * value), 1.0, 1e-13) << k;
  }
}

TEST(BidiagonalDraws, ALaneDependsOnItselfAlone) {
  for (const double spread : {1.0, 1e-30}) {
    const BidiagonalDraws together = random_draws(17, 5, spread);
    BidiagonalDraws found = together;
    find_squared_values(found);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      BidiagonalDraws alone{.size = together.size};
      for (std::size_t i = 0; i < together.size; ++i) {
        alone.squares[i].fill(together.squares[i][lane]);
        alone.above[i].fill(together.above[i][lane]);
      }
      find_squared_values(alone);
      for (std::size_t i = 0; i < together.size; ++i) {
        EXPECT_TRUE(same_bits(alone.squares[i][lane], found.squares[i][lane])) << lane << ' ' << i;
      }
    }
  }
}

TEST(BidiagonalDraws, EveryLevelHasTheSameBits) {
  for (const double spread : {1.0, 1e-30}) {
    for (const std::size_t size : {2U, 9U, 63U}) {
      const BidiagonalDraws draws = random_draws(size, 100 + size, spread);
      BidiagonalDraws baseline = draws;
      find_squared_values_at(decode::SimdLevel::kBaseline, baseline);
      for (const auto level : {decode::SimdLevel::kAvx2, decode::SimdLevel::kAvx512}) {
        if (!decode::is_supported(level)) {
          continue;
        }
        BidiagonalDraws found = draws;
        find_squared_values_at(level, found);
        for (std::size_t i = 0; i < size; ++i) {
          for (std::size_t lane = 0; lane < kLanes; ++lane) {
            EXPECT_TRUE(same_bits(found.squares[i][lane], baseline.squares[i][lane]));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::bidiagonal_draws_test
