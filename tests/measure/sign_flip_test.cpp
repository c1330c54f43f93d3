// The random signs of the sign-flip null: generator, bit order, transposition, spectrum.
#include "sign_flip.hpp"

#include "measure/backend_fixture.hpp"

#include <vindex/core/philox.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace vindex::test {
namespace {

constexpr std::uint64_t kKey = 0x0123456789abcdefU;

/// The definition, one element at a time.
bool is_negated(std::uint64_t element) {
  const PhiloxBlock words =
      philox4x32_10({{static_cast<std::uint32_t>(element / 128), 0, 0, 0}}, kKey);
  const auto bit = element % 128;
  return ((words.word[bit / 32] >> (bit % 32)) & 1U) != 0;
}

TEST(SignFlip, BitOfTheLogicalRowMajorElement) {
  FloatMatrix ones{30, 37, std::vector<float>(30 * 37, 1.0F)};
  measure::flip_signs(ones.values.data(), 30, 37, 37,
                      {.key = kKey, .whole_rows = 30, .whole_cols = 37});
  for (std::int64_t r = 0; r < 30; ++r) {
    for (std::int64_t c = 0; c < 37; ++c) {
      ASSERT_EQ(ones.at(r, c) < 0.0F, is_negated(static_cast<std::uint64_t>(r * 37 + c)));
    }
  }
}

TEST(SignFlip, TransposedStorageFlipsTheSameLogicalElements) {
  FloatMatrix stored{37, 30, std::vector<float>(30 * 37, 1.0F)};
  measure::flip_signs(stored.values.data(), 37, 30, 30,
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
    measure::SignFlipPlace place{
        .key = kKey, .transposed = turned, .whole_rows = 20, .whole_cols = 50};
    measure::flip_signs(whole.values.data(), 20, 50, 50, place);
    for (std::int64_t r = 0; r < 20; r += 7) {
      for (std::int64_t c = 0; c < 50; c += 13) {
        place.first_row = r;
        place.first_col = c;
        measure::flip_signs(&tiled.at(r, c), std::min<std::int64_t>(7, 20 - r),
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
    measure::flip_signs(flipped.values.data(), 60, 400, 400,
                        {.key = kKey, .transposed = turned, .whole_rows = 60, .whole_cols = 400});
    for (const measure::Mode mode : {measure::Mode::kDefault, measure::Mode::kStrict}) {
      measure::MeasureOptions options = with_mode(mode);
      options.sign_flip_null = true;
      const auto report = measure_floats(matrix, options, 0, turned, kKey);
      const auto reference = reference_singular_values(flipped);
      ASSERT_EQ(report.sign_flip_sigma.size(), reference.size());
      for (std::size_t i = 0; i < reference.size(); ++i) {
        EXPECT_NEAR(report.sign_flip_sigma[i], reference[i], 3e-6 * reference[0]);
      }
      EXPECT_GT(report.sigma[0], 1.5 * report.sign_flip_sigma[0]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SignFlipNull, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test
