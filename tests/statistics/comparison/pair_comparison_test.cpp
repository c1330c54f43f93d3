// Two matrices side by side: against sums in long double, in every orientation, with and without
// weights that are no numbers.
#include "statistics/comparison/pair_comparison.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace vindex::statistics::pair_comparison_test {
namespace {

/// rows x cols floats, stored as they are or turned.
class Stored {
 public:
  Stored(std::vector<float> values, std::int64_t rows, std::int64_t cols, bool transposed = false)
      : values_(std::move(values)) {
    if (transposed) {
      std::vector<float> turned(values_.size());
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
          turned[static_cast<std::size_t>(j * rows + i)] =
              values_[static_cast<std::size_t>(i * cols + j)];
        }
      }
      values_ = std::move(turned);
    }
    input_ = make_memory_input(
        decode::float32_view(values_.data(), transposed ? cols : rows, transposed ? rows : cols),
        transposed);
  }
  MatrixInput& input() { return *input_; }

 private:
  std::vector<float> values_;
  std::unique_ptr<MatrixInput> input_;
};

std::vector<float> noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.01F, 0.1F);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

TEST(PairComparisonTest, AgreesWithLongDoubleInEveryOrientation) {
  constexpr std::int64_t kRows = 1301, kCols = 977;  // more than one slab, odd in both
  const std::vector<float> a = noise(kRows * kCols, 1);
  std::vector<float> b = noise(kRows * kCols, 2);
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = a[i] + 0.05F * b[i];
  }
  long double inner = 0, aa = 0, bb = 0, dd = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const long double x = a[i], y = b[i];
    inner += x * y;
    aa += x * x;
    bb += y * y;
    dd += (y - x) * (y - x);
    most = std::max(most, std::abs(y - x));
  }
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      Stored left(a, kRows, kCols, turn_a);
      Stored right(b, kRows, kCols, turn_b);
      const PairReport report = compare_matrices(left.input(), right.input());
      ASSERT_EQ(report.status, MatrixStatus::kMeasured);
      EXPECT_FALSE(report.same_bits);
      EXPECT_NEAR(report.cosine, static_cast<double>(inner / std::sqrt(aa * bb)), 1e-14);
      EXPECT_NEAR(report.norm_a / static_cast<double>(std::sqrt(aa)), 1.0, 1e-14);
      EXPECT_NEAR(report.norm_b / static_cast<double>(std::sqrt(bb)), 1.0, 1e-14);
      EXPECT_NEAR(report.relative_error / static_cast<double>(std::sqrt(dd / aa)), 1.0, 1e-13);
      EXPECT_EQ(report.max_abs_difference, static_cast<double>(most));
    }
  }
}

TEST(PairComparisonTest, AMatrixIsItselfExactly) {
  for (const bool turned : {false, true}) {
    const std::vector<float> values = noise(333 * 70, 3);
    Stored a(values, 333, 70);
    Stored b(values, 333, 70, turned);
    const PairReport report = compare_matrices(a.input(), b.input());
    EXPECT_TRUE(report.same_bits);
    EXPECT_EQ(report.cosine, 1.0);
    EXPECT_EQ(report.relative_error, 0.0);
    EXPECT_EQ(report.max_abs_difference, 0.0);
    EXPECT_EQ(report.norm_a, report.norm_b);
  }
}

TEST(PairComparisonTest, ASignOfZeroIsAnotherBitAndNoDifference) {
  Stored a({1.0F, 0.0F}, 1, 2);
  Stored b({1.0F, -0.0F}, 1, 2);
  const PairReport report = compare_matrices(a.input(), b.input());
  EXPECT_FALSE(report.same_bits);
  EXPECT_EQ(report.relative_error, 0.0);
  EXPECT_EQ(report.cosine, 1.0);
}

TEST(PairComparisonTest, ZeroMatricesHaveNormsAndNoRatios) {
  Stored zero(std::vector<float>(12, 0.0F), 3, 4);
  Stored one(std::vector<float>(12, 1.0F), 3, 4);
  const PairReport of_zero = compare_matrices(zero.input(), one.input());
  EXPECT_EQ(of_zero.status, MatrixStatus::kMeasured);
  EXPECT_TRUE(std::isnan(of_zero.cosine));
  EXPECT_TRUE(std::isnan(of_zero.relative_error));
  EXPECT_EQ(of_zero.norm_a, 0.0);
  EXPECT_EQ(of_zero.reason, "zero matrix: A");
  const PairReport to_zero = compare_matrices(one.input(), zero.input());
  EXPECT_TRUE(std::isnan(to_zero.cosine));
  EXPECT_EQ(to_zero.relative_error, 1.0);
  EXPECT_EQ(to_zero.reason, "zero matrix: B");
}

TEST(PairComparisonTest, WeightsThatAreNotFiniteAreCountedBySide) {
  std::vector<float> bad = noise(40 * 30, 4);
  bad[17] = std::numeric_limits<float>::infinity();
  bad[1100] = std::numeric_limits<float>::quiet_NaN();
  Stored a(bad, 40, 30);
  Stored b(noise(40 * 30, 5), 40, 30);
  const PairReport report = compare_matrices(a.input(), b.input());
  EXPECT_EQ(report.status, MatrixStatus::kNotFinite);
  EXPECT_EQ(report.reason, "weights that are not finite: 2 of A");
  EXPECT_TRUE(std::isnan(report.cosine));
  EXPECT_TRUE(std::isnan(report.max_abs_difference));
  // The largest floats there are have squares that float64 holds.
  Stored huge(std::vector<float>(12, std::numeric_limits<float>::max()), 3, 4);
  const PairReport of_huge = compare_matrices(huge.input(), huge.input());
  EXPECT_EQ(of_huge.status, MatrixStatus::kMeasured);
  EXPECT_EQ(of_huge.cosine, 1.0);
}

TEST(PairComparisonTest, TheWorkspaceOfALargeMatrixIsASlab) {
  const decode::Encoding plain = decode::plain_encoding(decode::ElementType::kBF16);
  const StoredShape embedding{&plain, 129280, 7168, false};
  const PairWorkspace same = pair_workspace(embedding, embedding);
  EXPECT_LE(same.decoded + same.encoded, 16U << 20U);
  const StoredShape turned{&plain, 7168, 129280, true};
  const PairWorkspace other = pair_workspace(embedding, turned);
  EXPECT_LE(other.decoded + other.encoded, 24U << 20U);
}

}  // namespace
}  // namespace vindex::statistics::pair_comparison_test
