// Random numbers of the synthetic models: published answers, moments, and portable functions beside
// the library's.
#include "synth/random.hpp"

#include "synth/portable_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::synth::random_test {
namespace {

// Random123 1.14, tests/kat_vectors, philox4x32 10, counter 0, key 0.
TEST(Random, PhiloxGivesItsPublishedAnswer) {
  std::vector<std::uint32_t> words(128);
  fill_words(0, Stream::kEntries, words);
  EXPECT_EQ(words[0], 0x6627E8D5U);
  EXPECT_EQ(words[32], 0xE169C58DU);
  EXPECT_EQ(words[64], 0xBC57AC4CU);
  EXPECT_EQ(words[96], 0x9B00DBD8U);
}

TEST(Random, NormalsHaveTheMomentsAndTailsOfNormals) {
  std::vector<float> values(1 << 20);
  fill_normals(99, Stream::kEntries, values);
  double sum = 0.0;
  double square = 0.0;
  double cube = 0.0;
  double fourth = 0.0;
  double beyond_three = 0.0;
  double neighbours = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    square += v * v;
    cube += v * v * v;
    fourth += v * v * v * v;
    beyond_three += std::abs(v) > 3.0 ? 1.0 : 0.0;
    neighbours += v * static_cast<double>(values[(i + 32) % values.size()]);
  }
  const double n = static_cast<double>(values.size());
  const double sd = 5.0 / std::sqrt(n);  // five standard errors of a unit-variance mean
  EXPECT_NEAR(sum / n, 0.0, sd);
  EXPECT_NEAR(square / n, 1.0, sd * std::sqrt(2.0));
  EXPECT_NEAR(cube / n, 0.0, sd * std::sqrt(15.0));
  EXPECT_NEAR(fourth / n, 3.0, sd * std::sqrt(96.0));
  EXPECT_NEAR(beyond_three / n, 0.0026998, sd * 0.052);
  EXPECT_NEAR(neighbours / n, 0.0, sd);
}

TEST(Random, ALongerStreamBeginsLikeAShorterOne) {
  std::vector<float> longer(1000);
  std::vector<float> shorter(333);
  fill_normals(5, Stream::kEntries, longer);
  fill_normals(5, Stream::kEntries, shorter);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(Random, StreamsKeysAndNamesDiffer) {
  std::vector<std::uint32_t> a(4);
  std::vector<std::uint32_t> b(4);
  fill_words(1, Stream::kEntries, a);
  fill_words(1, Stream::kRowScales, b);
  EXPECT_NE(a, b);
  EXPECT_NE(tensor_key(0, "a"), tensor_key(0, "b"));
  EXPECT_NE(tensor_key(0, "a"), tensor_key(1, "a"));
}

TEST(PortableMath, AgreesWithTheLibraryToItsLastBits) {
  for (double x = 1e-3; x < 1e3; x *= 1.003) {
    EXPECT_NEAR(portable_log(x), std::log(x), 1e-15 * std::max(1.0, std::abs(std::log(x))));
  }
  for (double x = -20.0; x < 20.0; x += 0.0137) {
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1.0, 1e-15) << x;
  }
  EXPECT_NEAR(portable_pow(2048.0, -0.5), std::pow(2048.0, -0.5), 1e-16);
}

}  // namespace
}  // namespace vindex::synth::random_test
