// The flat methods: closed forms of both transforms, and what each method keeps.
#include "commands/purify/purify_methods.hpp"
#include "commands/purify/transforms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

namespace vindex::purify::purify_flat_test {
namespace {

using Bins = std::vector<std::complex<double>>;

std::vector<float> noise(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

double energy(std::span<const float> values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value * value;
  }
  return sum;
}

/// The definition, term by term.
Bins slow_transform(std::span<const float> values) {
  const auto n = static_cast<double>(values.size());
  Bins out(values.size() / 2 + 1);
  for (std::size_t k = 0; k < out.size(); ++k) {
    for (std::size_t t = 0; t < values.size(); ++t) {
      const double part = static_cast<double>(k * t % values.size()) / n;
      out[k] += static_cast<double>(values[t]) *
                std::polar(1.0 / std::sqrt(n), -2.0 * std::numbers::pi * part);
    }
  }
  return out;
}

TEST(FourierTest, IsItsDefinitionForEveryLength) {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 1; n <= 40; ++n) {
    lengths.push_back(n);
  }
  // Primes and twice them, below and above the largest radix: kissfft's and the chirp's.
  for (const std::size_t n : {251U, 257U, 509U, 514U, 1018U, 1021U}) {
    lengths.push_back(n);
  }
  for (const std::size_t n : lengths) {
    const std::vector<float> values = noise(n, static_cast<unsigned>(n));
    const Bins expected = slow_transform(values);
    Bins bins = real_transform(values);
    ASSERT_EQ(bins.size(), expected.size());
    double worst = 0.0;
    double kept = 0.0;
    for (std::size_t k = 0; k < bins.size(); ++k) {
      worst = std::max(worst, std::abs(bins[k] - expected[k]));
      kept += std::norm(bins[k]) * bin_weight(k, n);
    }
    EXPECT_LT(worst, 1e-11) << n;
    EXPECT_NEAR(kept, energy(values), 1e-11 * energy(values)) << "Parseval, " << n;
    std::vector<float> back(n);
    inverse_real_transform(bins, back);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(back[i], values[i], 1e-6) << n;
    }
  }
}

TEST(FourierTest, ASinusoidIsOneBin) {
  constexpr std::size_t kCount = 600;
  std::vector<float> values(kCount);
  for (std::size_t t = 0; t < kCount; ++t) {
    values[t] = static_cast<float>(
        std::sin(2.0 * std::numbers::pi * 7.0 * static_cast<double>(t) / kCount));
  }
  const Bins bins = real_transform(values);
  for (std::size_t k = 0; k < bins.size(); ++k) {
    EXPECT_NEAR(std::abs(bins[k]), k == 7 ? std::sqrt(kCount) / 2.0 : 0.0, 1e-5) << k;
  }
}

TEST(HaarTest, AConstantHasNoDetailsAndEnergyIsKept) {
  const std::vector<float> constant(64, 3.0F);
  HaarBands bands(constant, 6);
  ASSERT_EQ(bands.levels(), 6);
  for (std::int32_t level = 0; level < bands.levels(); ++level) {
    EXPECT_EQ(bands.detail(level).size(), 64U >> static_cast<unsigned>(level + 1));
    for (const double value : bands.detail(level)) {
      EXPECT_EQ(value, 0.0);
    }
  }
  std::vector<float> back(64);
  bands.invert(back);
  for (const float value : back) {
    EXPECT_FLOAT_EQ(value, 3.0F);
  }
}

TEST(HaarTest, DetailsOfFourNumbersByHand) {
  const std::vector<float> values = {1.0F, 3.0F, 6.0F, 2.0F};
  const HaarBands bands(values, 6);
  ASSERT_EQ(bands.levels(), 2);  // four numbers have no more
  EXPECT_NEAR(bands.detail(0)[0], -2.0 / std::numbers::sqrt2, 1e-12);
  EXPECT_NEAR(bands.detail(0)[1], 4.0 / std::numbers::sqrt2, 1e-12);
  EXPECT_NEAR(bands.detail(1)[0], (4.0 - 8.0) / 2.0, 1e-12);
}

TEST(HaarTest, AMeanOfFewerValuesWeighsLess) {
  // Level 0: (5, 1) and 4 alone. Level 1: two values of mean 3 beside one of 4: the detail is
  // sqrt(2 * 1 / 3) (3 - 4).
  const std::vector<float> values = {5.0F, 1.0F, 4.0F};
  const HaarBands bands(values, 6);
  ASSERT_EQ(bands.levels(), 2);
  ASSERT_EQ(bands.detail(0).size(), 1U);
  EXPECT_NEAR(bands.detail(0)[0], 4.0 / std::numbers::sqrt2, 1e-12);
  ASSERT_EQ(bands.detail(1).size(), 1U);
  EXPECT_NEAR(bands.detail(1)[0], -std::sqrt(2.0 / 3.0), 1e-12);
}

// What is padded with zeros has details at its end, and fewer values than numbers.
TEST(HaarTest, ConstantsOfEveryLengthHaveNoDetailsAndEnergyIsKept) {
  for (std::size_t n = 1; n <= 70; ++n) {
    const HaarBands constant(std::vector<float>(n, 3.0F), 6);
    const std::vector<float> values = noise(n);
    HaarBands bands(values, 6);
    std::size_t count = 0;
    double kept = 0.0;
    for (std::int32_t level = 0; level < bands.levels(); ++level) {
      for (const double value : constant.detail(level)) {
        EXPECT_NEAR(value, 0.0, 1e-12) << n << " level " << level;
      }
      count += bands.detail(level).size();
      for (double& value : bands.detail(level)) {
        kept += value * value;
        value = 0.0;
      }
    }
    const std::size_t sums = (n + (std::size_t{1} << static_cast<unsigned>(bands.levels())) - 1) >>
                             static_cast<unsigned>(bands.levels());
    EXPECT_EQ(count, n - sums);
    std::vector<float> back(n);
    bands.invert(back);
    EXPECT_NEAR(kept + energy(back), energy(values), 1e-5 * energy(values)) << n;
  }
}

TEST(HaarTest, ComesBackFromEveryLength) {
  for (std::size_t n = 1; n <= 70; ++n) {
    const std::vector<float> values = noise(n);
    HaarBands bands(values, 6);
    std::vector<float> back(n);
    bands.invert(back);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(back[i], values[i], 1e-6) << n;
    }
  }
}

TEST(PurifyFlatTest, FourierKeepsTheShareAndNotMuchMore) {
  const std::vector<float> values = noise(1000);
  for (const double share : {0.3, 0.95}) {
    PurifyRule rule{.method = PurifyMethod::kFft};
    rule.energy_share = share;
    std::vector<float> out = values;
    purify_flat(rule, out);
    const double kept = energy(out) / energy(values);
    EXPECT_GE(kept, share - 1e-6);
    EXPECT_LT(kept, share + 0.03);  // one bin more at most
  }
  PurifyRule all{.method = PurifyMethod::kFft};
  all.energy_share = 1.0;
  std::vector<float> out = values;
  purify_flat(all, out);
  EXPECT_LT(change_of_weights(values, out).relative_change, 1e-6);
}

TEST(PurifyFlatTest, UniversalThresholdTakesNoiseAndLeavesATone) {
  constexpr std::size_t kCount = 4096;
  std::vector<float> tone(kCount);
  std::vector<float> values = noise(kCount);
  for (std::size_t t = 0; t < kCount; ++t) {
    tone[t] = static_cast<float>(
        std::sin(2.0 * std::numbers::pi * 100.0 * static_cast<double>(t) / kCount));
    values[t] += tone[t];
  }
  purify_flat({.method = PurifyMethod::kFftUniversal}, values);
  EXPECT_LT(change_of_weights(tone, values).relative_change, 0.1);
}

TEST(PurifyFlatTest, CoherenceByHand) {
  // One detail of the finest scale, none above it: no parent, so it goes; the coarsest stay.
  std::vector<float> values = {1.0F, -1.0F, 0.0F, 0.0F};
  purify_flat({.method = PurifyMethod::kHaar}, values);
  for (const float value : values) {
    EXPECT_NEAR(value, 0.0F, 1e-7);
  }
  // Details 2/sqrt 2 below and 1 above: c = 2 sqrt(2) / (2 + 1) > 1/2, so that all stays.
  values = {2.0F, 0.0F, 0.0F, 0.0F};
  const std::vector<float> before = values;
  purify_flat({.method = PurifyMethod::kHaar}, values);
  EXPECT_LT(change_of_weights(before, values).relative_change, 1e-6);
}

TEST(PurifyFlatTest, ConstantsAndZerosStayAndEmptyIsNoError) {
  for (const PurifyMethod method : {PurifyMethod::kFft, PurifyMethod::kHaar,
                                    PurifyMethod::kHaarBayes, PurifyMethod::kHaarVisu}) {
    for (const float constant : {0.0F, 2.5F}) {
      std::vector<float> values(1024, constant);
      purify_flat({.method = method}, values);
      for (const float value : values) {
        EXPECT_NEAR(value, constant, 1e-6) << method_name(method);
      }
    }
    std::vector<float> none;
    purify_flat({.method = method}, none);
    EXPECT_GE(flat_method_bytes(method, 1000), 8000U);
  }
}

// Shapes whose length is far from a power of two keep no more noise than those of one.
TEST(PurifyFlatTest, TheShareOfNoiseKeptIsThatOfTheMethodAndNotOfTheShape) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {
      {128, 128}, {64, 172}, {96, 256}, {64, 65}, {33, 33}};
  for (const auto& [rows, cols] : shapes) {
    const auto kept = [&, rows = rows, cols = cols](PurifyMethod method) {
      return noise_kept({.method = method}, rows, cols);
    };
    // Sums above six scales are kept, 1/64 of all, and of the details next to nothing.
    for (const PurifyMethod method : {PurifyMethod::kHaarBayes, PurifyMethod::kHaarVisu}) {
      EXPECT_GT(kept(method), 0.01) << rows << "x" << cols;
      EXPECT_LT(kept(method), 0.03) << rows << "x" << cols << " " << method_name(method);
    }
    EXPECT_NEAR(kept(PurifyMethod::kHaar), 0.79, 0.02) << rows << "x" << cols;
    EXPECT_NEAR(kept(PurifyMethod::kFft), 0.95, 0.01) << rows << "x" << cols;
    EXPECT_LT(kept(PurifyMethod::kFftUniversal), 0.03) << rows << "x" << cols;
    EXPECT_EQ(kept(PurifyMethod::kSvdGd), 0.0) << rows << "x" << cols;
    EXPECT_LT(kept(PurifyMethod::kSvdShrink), 0.01) << rows << "x" << cols;
    EXPECT_GT(kept(PurifyMethod::kLaser), 0.15) << rows << "x" << cols;
    EXPECT_LT(kept(PurifyMethod::kLaser), 0.35) << rows << "x" << cols;
  }
}

TEST(PurifyFlatTest, APermutationChangesTheResult) {
  constexpr std::size_t kRows = 96;
  constexpr std::size_t kCols = 64;
  std::vector<float> values = noise(kRows * kCols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += static_cast<float>(std::sin(0.01 * static_cast<double>(i)));
  }
  // Columns too: rows of 64 are whole blocks of six scales, and their order is nothing to Haar.
  const auto transposed = [](const std::vector<float>& matrix) {
    std::vector<float> out;
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kCols; ++j) {
        out.push_back(matrix[i * 37 % kRows * kCols + j * 29 % kCols]);
      }
    }
    return out;
  };
  for (const PurifyMethod method : {PurifyMethod::kFft, PurifyMethod::kFftUniversal,
                                    PurifyMethod::kHaar, PurifyMethod::kHaarBayes}) {
    std::vector<float> first = values;
    purify_flat({.method = method}, first);
    std::vector<float> second = transposed(values);
    purify_flat({.method = method}, second);
    EXPECT_GT(change_of_weights(transposed(first), second).relative_change, 0.05)
        << method_name(method);
  }
}

}  // namespace
}  // namespace vindex::purify::purify_flat_test
