// The Haar pyramid beside a plain transform, whatever pieces its weights come in, and what
// z_modulus and csci say of noise, of fractional noise, and of sorted weights.
#include "statistics/scales/haar_pyramid.hpp"

#include "csci_laws.hpp"

#include "statistics/scales/scale_sums.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace vindex::statistics::haar_pyramid_test {
namespace {

std::vector<float> normal(std::size_t count, std::uint64_t seed, double scale = 0.02) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> law;
  std::vector<float> out(count);
  for (float& value : out) {
    value = static_cast<float>(scale * law(engine));
  }
  return out;
}

/// By the definition, level by level over the orthonormal coefficients.
ScaleFigures plain_figures(const std::vector<float>& weights) {
  std::vector<double> rest(weights.begin(), weights.end());
  std::vector<std::vector<double>> details;
  while (rest.size() / 2 >= 64) {
    std::vector<double>& detail = details.emplace_back();
    std::vector<double> next;
    for (std::size_t k = 0; k + 1 < rest.size(); k += 2) {
      detail.push_back((rest[k] - rest[k + 1]) / std::sqrt(2.0));
      next.push_back((rest[k] + rest[k + 1]) / std::sqrt(2.0));
    }
    rest = std::move(next);
  }
  double w = 0.0, wx = 0.0, wy = 0.0, wxx = 0.0, wxy = 0.0, correlated = 0.0, pairs = 0.0;
  for (std::size_t j = 0; j < details.size(); ++j) {
    const auto count = static_cast<double>(details[j].size());
    const double square =
        std::inner_product(details[j].begin(), details[j].end(), details[j].begin(), 0.0) / count;
    const double x = static_cast<double>(j) + 1.0;
    const double y = -std::log2(square);
    w += count;
    wx += count * x;
    wy += count * y;
    wxx += count * x * x;
    wxy += count * x * y;
    if (j + 1 == details.size()) {
      break;
    }
    double a = 0.0, b = 0.0, aa = 0.0, bb = 0.0, ab = 0.0;
    const auto n = static_cast<double>(2 * details[j + 1].size());
    for (std::size_t k = 0; k < 2 * details[j + 1].size(); ++k) {
      const double child = std::abs(details[j][k]);
      const double parent = std::abs(details[j + 1][k / 2]);
      a += child;
      b += parent;
      aa += child * child;
      bb += parent * parent;
      ab += child * parent;
    }
    correlated += n * (ab / n - a / n * b / n) /
                  std::sqrt((aa / n - a / n * a / n) * (bb / n - b / n * b / n));
    pairs += n;
  }
  return {.z_modulus = (w * wxy - wx * wy) / (w * wxx - wx * wx), .csci = correlated / pairs};
}

ScaleFigures figures_of(std::vector<float> weights) {
  ScaleSums sums(static_cast<std::int64_t>(weights.size()), 99);
  sums.add(0, weights);
  return sums.figures();
}

std::vector<std::uint64_t> bits_of(const HaarPyramid& pyramid) {
  std::vector<std::uint64_t> bits;
  for (const HaarLevel& level : pyramid.levels()) {
    for (const double value : {level.squares, level.magnitudes, level.paired_squares,
                               level.paired_magnitudes, level.products}) {
      bits.push_back(std::bit_cast<std::uint64_t>(value));
    }
  }
  return bits;
}

TEST(ExactSumTest, DoesNotDependOnTheOrder) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> exponent(-290.0, 300.0);
  std::vector<double> terms;
  for (int i = 0; i < 2000; ++i) {
    terms.push_back(std::exp2(exponent(engine)));
  }
  terms.insert(terms.end(), {0.0, 1.0, 0x1p-298, 0x1.fffffffffffffp+390});
  ExactSum forward;
  ExactSum backward;
  long double expected = 0.0L;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    forward.add(terms[i]);
    backward.add(terms[terms.size() - 1 - i]);
    expected += terms[i];
  }
  EXPECT_EQ(forward.value(), backward.value());
  EXPECT_DOUBLE_EQ(forward.value(), static_cast<double>(expected));
  ExactSum small;
  for (int i = 0; i < 3000; ++i) {
    small.add(0.1);
  }
  EXPECT_DOUBLE_EQ(small.value(), 300.00000000000001665);
  EXPECT_EQ(ExactSum().value(), 0.0);
  ExactSum cancels;  // a float64 sum would lose every second term
  cancels.add(0x1p53);
  cancels.add(1.0);
  cancels.add(1.0);
  EXPECT_EQ(cancels.value(), 0x1p53 + 2.0);
}

TEST(HaarBlockTest, EveryProcessorGivesTheSameBits) {
  const std::vector<float> weights = normal(1024, 5);
  const HaarBlock wanted = haar_block_at(decode::SimdLevel::kBaseline, weights.data());
  for (const auto level : {decode::SimdLevel::kAvx2, decode::SimdLevel::kAvx512}) {
    if (decode::is_supported(level)) {
      const HaarBlock block = haar_block_at(level, weights.data());
      EXPECT_EQ(block.squares, wanted.squares);
      EXPECT_EQ(block.magnitudes, wanted.magnitudes);
      EXPECT_EQ(block.products, wanted.products);
      EXPECT_EQ(block.sum, wanted.sum);
      EXPECT_EQ(block.difference, wanted.difference);
    }
  }
}

TEST(HaarPyramidTest, IsThePlainTransform) {
  for (const std::size_t size : {256U, 257U, 383U, 1023U, 1024U, 1025U, 1535U, 2048U, 3071U, 4097U,
                                 65535U, 65536U, 100003U}) {
    SCOPED_TRACE(size);
    const std::vector<float> weights = normal(size, size);
    const ScaleFigures wanted = plain_figures(weights);
    const ScaleFigures figures = figures_of(weights);
    EXPECT_NEAR(figures.z_modulus, wanted.z_modulus, 1e-12);
    EXPECT_NEAR(figures.csci, wanted.csci, 1e-12);
  }
}

TEST(HaarPyramidTest, HasTheSameBitsWhateverThePieces) {
  constexpr std::int64_t kRows = 61;
  constexpr std::int64_t kCols = 1701;
  const std::vector<float> weights = normal(kRows * kCols, 8);
  const std::span<const float> all(weights);
  HaarPyramid whole(kRows * kCols);
  whole.add(0, all);
  const std::vector<std::uint64_t> wanted = bits_of(whole);
  for (const std::int64_t step : {1L, 7L, 1000L, 1024L, 5000L}) {
    HaarPyramid forward(kRows * kCols);
    HaarPyramid backward(kRows * kCols);
    const std::int64_t pieces = (kRows * kCols + step - 1) / step;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const auto piece = [&](std::int64_t number) {
        const std::int64_t first = number * step;
        return all.subspan(static_cast<std::size_t>(first),
                           static_cast<std::size_t>(std::min(step, kRows * kCols - first)));
      };
      forward.add(i * step, piece(i));
      backward.add((pieces - 1 - i) * step, piece(pieces - 1 - i));
    }
    EXPECT_EQ(bits_of(forward), wanted) << step;
    EXPECT_EQ(bits_of(backward), wanted) << step;
  }
  for (const std::int64_t width : {13L, 512L, 1024L, 1700L}) {
    HaarPyramid columns(kRows * kCols);
    for (std::int64_t col = 0; col < kCols; col += width) {
      EXPECT_FALSE(columns.is_complete());
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::int64_t first = row * kCols + col;
        columns.add(first, all.subspan(static_cast<std::size_t>(first),
                                       static_cast<std::size_t>(std::min(width, kCols - col))));
      }
    }
    EXPECT_TRUE(columns.is_complete());
    EXPECT_EQ(bits_of(columns), wanted) << width;
  }
}

struct Drawn {
  double mean = 0.0, deviation = 0.0;
};
Drawn drawn(const std::vector<double>& values) {
  Drawn out;
  const auto count = static_cast<double>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (const double value : values) {
    out.deviation += (value - out.mean) * (value - out.mean) / (count - 1.0);
  }
  out.deviation = std::sqrt(out.deviation);
  return out;
}

TEST(ScaleNullsTest, AreThoseOfTwoHundredDrawnMatrices) {
  constexpr int kDraws = 200;
  const double allowed = 2.0 / std::sqrt(static_cast<double>(kDraws));
  for (const std::size_t size : {16U * 16U, 64U * 64U, 96U * 171U, 256U * 256U}) {
    SCOPED_TRACE(size);
    std::vector<double> z;
    std::vector<double> csci;
    for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
      const ScaleFigures figures = figures_of(normal(size, 1000 * size + draw));
      z.push_back(figures.z_modulus);
      csci.push_back(figures.csci);
    }
    const ScaleFigures nulls = scale_nulls(static_cast<std::int64_t>(size));
    const Drawn of_z = drawn(z);
    EXPECT_NEAR(of_z.mean, nulls.z_modulus_null, allowed * nulls.z_modulus_null_sd);
    EXPECT_NEAR(of_z.deviation / nulls.z_modulus_null_sd, 1.0, allowed / std::sqrt(2.0));
    EXPECT_LT(nulls.z_modulus_null, 0.1 * nulls.z_modulus_null_sd);
    const Drawn of_csci = drawn(csci);
    EXPECT_NEAR(of_csci.mean, 0.0, allowed * nulls.csci_null_sd);
    EXPECT_NEAR(of_csci.deviation / nulls.csci_null_sd, 1.0, allowed / std::sqrt(2.0));
  }
}

/// Fractional Gaussian noise of that Hurst exponent, by Hosking's recursion (1984): exact.
std::vector<float> fractional_noise(std::size_t count, double hurst, std::uint64_t seed) {
  const auto covariance = [&](std::size_t lag) {
    const auto k = static_cast<double>(lag);
    return 0.5 * (std::pow(k + 1.0, 2.0 * hurst) - 2.0 * std::pow(k, 2.0 * hurst) +
                  std::pow(std::abs(k - 1.0), 2.0 * hurst));
  };
  std::vector<double> known;
  for (std::size_t lag = 0; lag <= count; ++lag) {
    known.push_back(covariance(lag));
  }
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> law;
  std::vector<double> out = {law(engine)};
  std::vector<double> phi;
  std::vector<double> before;
  double variance = 1.0;
  for (std::size_t n = 1; n < count; ++n) {
    before = phi;
    double reflection = known[n];
    for (std::size_t i = 0; i < before.size(); ++i) {
      reflection -= before[i] * known[n - 1 - i];
    }
    reflection /= variance;
    for (std::size_t i = 0; i < before.size(); ++i) {
      phi[i] = before[i] - reflection * before[before.size() - 1 - i];
    }
    phi.push_back(reflection);
    variance *= 1.0 - reflection * reflection;
    double mean = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      mean += phi[i] * out[n - 1 - i];
    }
    out.push_back(mean + std::sqrt(variance) * law(engine));
  }
  return {out.begin(), out.end()};
}

TEST(ScaleFiguresTest, FindTheHurstExponentOfFractionalNoise) {
  for (const double hurst : {0.2, 0.5, 0.8}) {
    const std::vector<float> weights = fractional_noise(8192, hurst, 4);
    const ScaleFigures figures = figures_of(weights);
    // d_j of self-similar increments has variance 2^(j (2 H - 1)), exactly.
    EXPECT_NEAR(figures.z_modulus, 1.0 - 2.0 * hurst, 3.0 * figures.z_modulus_null_sd) << hurst;
  }
}

TEST(ScaleFiguresTest, SortedWeightsAreFarFromNoiseAndShuffledOnesAreNot) {
  std::vector<float> weights = normal(1U << 16U, 6);
  std::sort(weights.begin(), weights.end());
  const ScaleFigures sorted = figures_of(weights);
  EXPECT_LT(sorted.z_modulus, -1.5);
  EXPECT_GT(sorted.csci, 0.5);
  // Sizes still lie in order where signs are random: the signs alone made the slope.
  EXPECT_NEAR(sorted.z_modulus_signflip, 0.0, 5.0 * sorted.z_modulus_null_sd);
  EXPECT_GT(sorted.csci_signflip, 20.0 * sorted.csci_null_sd);
  EXPECT_LT(sorted.csci_signflip, sorted.csci - 20.0 * sorted.csci_null_sd);
  std::mt19937_64 engine(9);
  std::shuffle(weights.begin(), weights.end(), engine);
  const ScaleFigures shuffled = figures_of(weights);
  EXPECT_NEAR(shuffled.z_modulus, 0.0, 3.0 * shuffled.z_modulus_null_sd);
  EXPECT_NEAR(shuffled.csci, 0.0, 3.0 * shuffled.csci_null_sd);
}

TEST(ScaleFiguresTest, SignFlipsLeaveNoiseNoise) {
  const ScaleFigures figures = figures_of(normal(1U << 15U, 11));
  EXPECT_NE(figures.z_modulus_signflip, figures.z_modulus);
  EXPECT_NEAR(figures.z_modulus_signflip, figures.z_modulus_null, 3.0 * figures.z_modulus_null_sd);
  EXPECT_NEAR(figures.csci_signflip, 0.0, 3.0 * figures.csci_null_sd);
}

TEST(ScaleFiguresTest, SignFlipsTellTailsAndUnequalRowsFromOrder) {
  std::mt19937_64 engine(21);
  std::student_t_distribution<double> tails(4.0);
  std::vector<float> heavy(1U << 16U);
  for (float& weight : heavy) {
    weight = static_cast<float>(tails(engine));
  }
  std::vector<float> rows = normal(1U << 16U, 22);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] *= (i >> 8U) % 3 == 0 ? 3.0F : 1.0F;
  }
  for (const std::vector<float>& weights : {heavy, rows}) {
    const ScaleFigures figures = figures_of(weights);
    EXPECT_GT(figures.csci, 20.0 * figures.csci_null_sd);
    EXPECT_NEAR(figures.csci, figures.csci_signflip, 0.05);
  }
}

TEST(ScaleFiguresTest, SignsAreThoseOfTheirPlaces) {
  const std::vector<float> weights = normal(5000, 13);
  std::vector<float> whole = weights;
  flip_scale_signs(7, 0, whole);
  std::size_t flipped = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(std::abs(whole[i]), std::abs(weights[i]));
    flipped += std::signbit(whole[i]) != std::signbit(weights[i]) ? 1U : 0U;
  }
  EXPECT_NEAR(static_cast<double>(flipped), 2500.0, 150.0);
  for (const std::size_t step : {1U, 31U, 32U, 128U, 777U}) {
    std::vector<float> parts = weights;
    for (std::size_t first = 0; first < parts.size(); first += step) {
      flip_scale_signs(7, static_cast<std::int64_t>(first),
                       std::span(parts).subspan(first, std::min(step, parts.size() - first)));
    }
    EXPECT_EQ(parts, whole) << step;
  }
}

TEST(ScaleFiguresTest, SaysWhyThereAreNone) {
  const auto reason = [](const std::vector<float>& weights) {
    return std::string(
        missing_scales(static_cast<std::int64_t>(weights.size()), figures_of(weights)));
  };
  EXPECT_EQ(reason(normal(256, 1)), "");
  EXPECT_EQ(reason(normal(255, 1)), "fewer than 256 weights");
  EXPECT_TRUE(std::isnan(figures_of(normal(255, 1)).csci_null_sd));
  const std::vector<float> constant(3000, 0.1F);
  EXPECT_TRUE(std::isnan(figures_of(constant).z_modulus));
  EXPECT_TRUE(std::isnan(figures_of(constant).csci));
  EXPECT_EQ(reason(constant), "all neighbours are equal at some scale");
  std::vector<float> ramp(4096);
  std::iota(ramp.begin(), ramp.end(), 0.0F);
  EXPECT_NEAR(figures_of(ramp).z_modulus, -3.0, 1e-12);
  EXPECT_TRUE(std::isnan(figures_of(ramp).csci));
  EXPECT_EQ(reason(ramp), "all differences of some scale are equal: no csci");
  for (const float odd : {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const std::size_t place : {0U, 1500U, 2048U, 2099U}) {
      std::vector<float> weights = normal(2100, 2);
      weights[place] = odd;
      EXPECT_TRUE(std::isnan(figures_of(weights).z_modulus)) << place;
      EXPECT_TRUE(std::isnan(figures_of(weights).csci)) << place;
    }
  }
  // Neither the smallest nor the largest weights leave the range of the sums.
  std::vector<float> extremes = normal(5000, 3, 1e-40);
  EXPECT_FALSE(std::isnan(figures_of(extremes).z_modulus));
  extremes = normal(5000, 3, 1e37);
  EXPECT_NEAR(figures_of(extremes).z_modulus, figures_of(normal(5000, 3, 1.0)).z_modulus, 1e-6);
}

TEST(MeanScalesTest, IsTheMeanOfItsSlices) {
  MeanScales mean;
  const ScaleFigures nulls = scale_nulls(4096);
  mean.add(4096,
           {0.1, nulls.z_modulus_null, nulls.z_modulus_null_sd, 0.3, nulls.csci_null_sd, 0.0, 0.5});
  mean.add(4096,
           {0.3, nulls.z_modulus_null, nulls.z_modulus_null_sd, 0.1, nulls.csci_null_sd, 0.0, 0.3});
  EXPECT_DOUBLE_EQ(mean.mean().z_modulus, 0.2);
  EXPECT_DOUBLE_EQ(mean.mean().csci, 0.2);
  EXPECT_DOUBLE_EQ(mean.mean().csci_signflip, 0.4);
  EXPECT_DOUBLE_EQ(mean.mean().z_modulus_null_sd, nulls.z_modulus_null_sd / std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(mean.mean().csci_null_sd, nulls.csci_null_sd / std::sqrt(2.0));
  EXPECT_TRUE(std::isnan(MeanScales().mean().csci));
}

TEST(PermutedScales, IndependentWeightsOfAnyLawHaveTheCsciOfTheirPermutations) {
  for (const CsciLaw& law : csci_laws()) {
    SCOPED_TRACE(law.name);
    const CsciScores found = csci_scores(law, 20'000, 40);
    if (law.is_in_rows) {  // the sizes lie in order
      EXPECT_GT(found.by_permuted, 5.0);
    } else {
      EXPECT_NEAR(found.by_permuted, 0.0, 0.8);
      EXPECT_NEAR(found.by_permuted_sd, 1.18, 0.4);  // Student's of seven degrees
    }
    EXPECT_NEAR(found.by_signs, 0.0, 1.0);
  }
}

TEST(PermutedScales, LongSequencesAreSampledOnceInEveryStretch) {
  constexpr std::int64_t kSize = 3 * PermutedScales::kMostPermuted / 2;
  std::vector<float> weights(kSize);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(i % 2 == 0 ? 1.0 : static_cast<double>(i % 7));
  }
  PermutedScales whole(kSize);
  whole.add(0, weights);
  PermutedScales in_parts(kSize);
  for (std::int64_t first = kSize - 1000; first >= 0; first -= 1000) {
    in_parts.add(first, std::span(weights).subspan(static_cast<std::size_t>(first), 1000));
  }
  in_parts.add(0, std::span(weights).first(static_cast<std::size_t>(kSize % 1000)));
  ScaleFigures a;
  ScaleFigures b;
  whole.fill(a);
  in_parts.fill(b);
  EXPECT_EQ(a.csci_permuted, b.csci_permuted);
  EXPECT_GT(a.csci_permuted_sd, 0.0);
  ScaleFigures none;
  PermutedScales(255).fill(none);
  EXPECT_TRUE(std::isnan(none.csci_permuted));
}

}  // namespace
}  // namespace vindex::statistics::haar_pyramid_test
