// The random signs of the sign-flip null: generator, bit order, transposition, spectrum.
#include "backend_fixture.hpp"

#include "core/philox.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace vindex::test::sign_flip_test {
namespace {

constexpr std::uint64_t kKey = 0x0123456789abcdefU;

/// The definition, one element at a time.
bool is_negated(std::uint64_t element, std::uint32_t draw = 0) {
  const PhiloxBlock words =
      philox4x32_10({{static_cast<std::uint32_t>(element / 128), 0, draw, 0}}, kKey);
  const auto bit = element % 128;
  return ((words.word[bit / 32] >> (bit % 32)) & 1U) != 0;
}

TEST(SignFlip, BitOfTheLogicalRowMajorElement) {
  for (const std::uint32_t draw : {0U, 1U, 999U}) {
    FloatMatrix ones{30, 37, std::vector<float>(30 * 37, 1.0F)};
    cpu::flip_signs(ones.values.data(), 30, 37, 37,
                    {.key = kKey, .draw = draw, .whole_rows = 30, .whole_cols = 37});
    for (std::int64_t r = 0; r < 30; ++r) {
      for (std::int64_t c = 0; c < 37; ++c) {
        ASSERT_EQ(ones.at(r, c) < 0.0F, is_negated(static_cast<std::uint64_t>(r * 37 + c), draw));
      }
    }
  }
}

TEST(SignFlip, TransposedStorageFlipsTheSameLogicalElements) {
  FloatMatrix stored{37, 30, std::vector<float>(30 * 37, 1.0F)};
  cpu::flip_signs(stored.values.data(), 37, 30, 30,
                  {.key = kKey, .transposed = true, .whole_rows = 37, .whole_cols = 30});
  for (std::int64_t r = 0; r < 30; ++r) {
    for (std::int64_t c = 0; c < 37; ++c) {
      ASSERT_EQ(stored.at(c, r) < 0.0F, is_negated(static_cast<std::uint64_t>(r * 37 + c)));
    }
  }
}

TEST(SignFlip, TilesFlipWhatTheWholeMatrixFlips) {
  for (const bool turned : {false, true}) {
    FloatMatrix whole{20, 50, std::vector<float>(1000, 1.0F)};
    FloatMatrix tiled = whole;
    cpu::SignFlipPlace place{.key = kKey, .transposed = turned, .whole_rows = 20, .whole_cols = 50};
    cpu::flip_signs(whole.values.data(), 20, 50, 50, place);
    for (std::int64_t r = 0; r < 20; r += 7) {
      for (std::int64_t c = 0; c < 50; c += 13) {
        place.first_row = r;
        place.first_col = c;
        cpu::flip_signs(&tiled.at(r, c), std::min<std::int64_t>(7, 20 - r),
                        std::min<std::int64_t>(13, 50 - c), 50, place);
      }
    }
    EXPECT_EQ(whole.values, tiled.values);
  }
}

class SignFlipNull : public BackendTest {};

TEST_P(SignFlipNull, SpectrumOfTheFlippedMatrix) {
  for (const bool turned : {false, true}) {
    const FloatMatrix matrix = spiked_matrix(60, 400, 3, 4.0, 41);
    FloatMatrix flipped = matrix;
    cpu::flip_signs(flipped.values.data(), 60, 400, 400,
                    {.key = kKey, .transposed = turned, .whole_rows = 60, .whole_cols = 400});
    for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      MeasureOptions options = with_mode(mode);
      options.sign_flip_draws = 1;
      const auto report = measure_floats(matrix, options, 0, turned, kKey);
      const auto reference = reference_singular_values(flipped);
      ASSERT_TRUE(report.sign_flip.has_value());
      const std::vector<double>& sigma = report.sign_flip->first_sigma;
      ASSERT_EQ(sigma.size(), reference.size());
      for (std::size_t i = 0; i < reference.size(); ++i) {
        EXPECT_NEAR(sigma[i], reference[i], 3e-6 * reference[0]);
      }
      EXPECT_GT(report.sigma[0], 1.5 * sigma[0]);
      EXPECT_EQ(report.sign_flip->draws.size(), 1U);
    }
  }
}

/// Every draw against a run of its own: the metrics of the matrix whose signs were turned by the
/// definition, measured as any other matrix.
TEST_P(SignFlipNull, EveryDrawIsTheMatrixOfItsSigns) {
  const FloatMatrix matrix = spiked_matrix(is_emulated() ? 66 : 72, 100, 3, 4.0, 43);
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kFast}) {
    MeasureOptions options = with_mode(mode);
    options.sign_flip_draws = is_emulated() ? 2 : 4;
    const auto draws = static_cast<std::uint32_t>(options.sign_flip_draws);
    const auto report = measure_floats(matrix, options, 0, false, kKey);
    ASSERT_TRUE(report.sign_flip.has_value());
    ASSERT_EQ(report.sign_flip->draws.size(), draws);
    for (std::uint32_t number = 0; number < draws; ++number) {
      FloatMatrix flipped = matrix;
      for (std::size_t i = 0; i < flipped.values.size(); ++i) {
        flipped.values[i] *= is_negated(i, number) ? -1.0F : 1.0F;
      }
      auto plain = measure_floats(flipped, with_mode(mode, false));
      plain.bounds.reset();
      // A draw keeps the first route too, and its median is no part of what that loses here.
      plain.tail_reliable = true;
      std::string reason;
      const auto wanted = statistics::derive_metrics(matrix.rows, 100, plain, mode, reason);
      const SignFlipDraw& draw = report.sign_flip->draws[number];
      for (std::size_t k = 0; k < kVarAtK.size(); ++k) {
        if (std::isnan(wanted.var_at_k[k])) {
          EXPECT_TRUE(std::isnan(draw.var_at_k[k])) << k;
        } else {
          EXPECT_NEAR(draw.var_at_k[k], wanted.var_at_k[k], 2e-6 * wanted.var_at_k[k]);
        }
      }
      EXPECT_NEAR(draw.stable_rank, wanted[statistics::Metric::kStableRank], 1e-4);
      if (mode == SpectrumMode::kFast) {
        EXPECT_TRUE(std::isnan(draw.effective_rank));
        EXPECT_TRUE(std::isnan(draw.mp_outliers));
      } else {
        EXPECT_NEAR(draw.effective_rank, wanted[statistics::Metric::kEffectiveRank], 1e-3);
        EXPECT_EQ(draw.mp_outliers, wanted[statistics::Metric::kMpOutliers]);
      }
    }
    EXPECT_NE(report.sign_flip->draws[0].stable_rank, report.sign_flip->draws[1].stable_rank);
    // Fewer draws are the first of them, whatever follows.
    options.sign_flip_draws = static_cast<std::int32_t>(draws) - 1;
    const auto fewer = measure_floats(matrix, options, 0, false, kKey);
    EXPECT_EQ(fewer.sign_flip->first_sigma, report.sign_flip->first_sigma);
    for (std::size_t i = 0; i + 1 < draws; ++i) {
      EXPECT_EQ(fewer.sign_flip->draws[i].var_at_k, report.sign_flip->draws[i].var_at_k);
      EXPECT_EQ(fewer.sign_flip->draws[i].stable_rank, report.sign_flip->draws[i].stable_rank);
    }
  }
}

TEST(SignFlip, NoiseLiesAmongItsDrawsAndASpikeDoesNot) {
  const auto backend = cpu::make_cpu_backend(1);
  MeasureOptions options = with_mode(SpectrumMode::kDefault);
  options.sign_flip_draws = 12;
  const auto z_of = [&](const FloatMatrix& matrix) {
    const auto input = make_memory_input(as_encoded(matrix), false, kKey);
    MatrixInput* const pointer = input.get();
    MatrixReport report;
    backend->measure({&pointer, 1}, options, 0, {&report, 1});
    std::string reason;
    const auto values = statistics::derive_metrics(matrix.rows, matrix.cols, report,
                                                   SpectrumMode::kDefault, reason);
    return statistics::summarise_sign_flips(*report.sign_flip, values, report.sigma,
                                            std::min(matrix.rows, matrix.cols));
  };
  const auto noise = z_of(gaussian_matrix(64, 160, 5));
  for (const auto& spread : {noise.var_at_k_spread[0], noise.var_at_k_spread[4], noise.stable_rank,
                             noise.effective_rank}) {
    EXPECT_GT(spread.std, 0.0);
    EXPECT_LT(std::abs(spread.z), 4.5);
  }
  EXPECT_TRUE(std::isnan(noise.var_at_k_spread[6].z)) << "k >= p is 1 in every draw";
  const auto spiked = z_of(spiked_matrix(64, 160, 3, 4.0, 6));
  EXPECT_GT(spiked.var_at_k_spread[0].z, 10.0);
  EXPECT_LT(spiked.effective_rank.z, -10.0);
  EXPECT_GT(spiked.rand_distance, 2.0 * noise.rand_distance);
}

TEST_P(SignFlipNull, AZeroMatrixAndAWeightThatIsNotFinite) {
  MeasureOptions options;
  options.sign_flip_draws = 2;
  FloatMatrix matrix{20, 30, std::vector<float>(600, 0.0F)};
  const auto zero = measure_floats(matrix, options);
  ASSERT_TRUE(zero.sign_flip.has_value());
  ASSERT_EQ(zero.sign_flip->draws.size(), 2U);
  EXPECT_TRUE(std::isnan(zero.sign_flip->draws[1].var_at_k[0]));
  EXPECT_EQ(zero.sign_flip->draws[1].mp_outliers, 0.0);
  matrix.values[7] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(measure_floats(matrix, options).sign_flip.has_value());
}

INSTANTIATE_TEST_SUITE_P(Backends, SignFlipNull, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::sign_flip_test
