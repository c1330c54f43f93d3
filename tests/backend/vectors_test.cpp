// Top-K singular vectors: unit, signed, orthogonal, and triplets of the matrix as it is meant
// (out x in), with residuals and gaps that are true.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace vindex::test::vectors_test {
namespace {

class Vectors : public BackendTest {
 protected:
  void expect_triplets(const FloatMatrix& logical, std::int32_t wanted, SpectrumMode mode,
                       bool turned, double tolerance) {
    MeasureOptions options = with_mode(mode);
    options.vectors = wanted;
    if (is_emulated() && std::min(logical.rows, logical.cols) > 200) {
      options.svd_route = "library";  // the emulation of tensor cores is slow
    }
    const MatrixReport report =
        measure_floats(turned ? transposed(logical) : logical, options, 0, turned);
    ASSERT_TRUE(report.vectors.has_value());
    const SingularVectors& vectors = *report.vectors;
    const auto reference = reference_singular_values(logical);
    const auto count = std::min<std::int64_t>(wanted, std::min(logical.rows, logical.cols));
    ASSERT_EQ(vectors.count, count);
    ASSERT_EQ(static_cast<std::int64_t>(vectors.right.size()), count * logical.cols);
    ASSERT_EQ(static_cast<std::int64_t>(vectors.left.size()), count * logical.rows);
    ASSERT_EQ(static_cast<std::int64_t>(vectors.sigma.size()), count);
    ASSERT_EQ(static_cast<std::int64_t>(vectors.residual.size()), count);
    ASSERT_EQ(static_cast<std::int64_t>(vectors.gap.size()), count);
    for (std::int64_t k = 0; k < count; ++k) {
      const auto index = static_cast<std::size_t>(k);
      SCOPED_TRACE(k);
      const float* const v = vectors.right.data() + k * logical.cols;
      const float* const u = vectors.left.data() + k * logical.rows;
      const double s = vectors.sigma[index];
      EXPECT_NEAR(s, reference[index], tolerance * reference[0]);
      EXPECT_LE(vectors.residual[index], tolerance * reference[0]);
      EXPECT_GT(*std::max_element(v, v + logical.cols,
                                  [](float a, float b) { return std::abs(a) < std::abs(b); }),
                0.0F);
      double v_norm = 0.0;
      double u_norm = 0.0;
      double forward = 0.0;
      double backward = 0.0;
      for (std::int64_t r = 0; r < logical.rows; ++r) {
        double sum = 0.0;
        for (std::int64_t c = 0; c < logical.cols; ++c) {
          sum += static_cast<double>(logical.at(r, c)) * static_cast<double>(v[c]);
        }
        forward += std::pow(sum - s * static_cast<double>(u[r]), 2.0);
        u_norm += std::pow(static_cast<double>(u[r]), 2.0);
      }
      for (std::int64_t c = 0; c < logical.cols; ++c) {
        double sum = 0.0;
        for (std::int64_t r = 0; r < logical.rows; ++r) {
          sum += static_cast<double>(logical.at(r, c)) * static_cast<double>(u[r]);
        }
        backward += std::pow(sum - s * static_cast<double>(v[c]), 2.0);
        v_norm += std::pow(static_cast<double>(v[c]), 2.0);
      }
      EXPECT_NEAR(v_norm, 1.0, 1e-5);
      EXPECT_NEAR(u_norm, 1.0, 1e-5);
      // Of the vectors as they are stored: rounding to float32 alone leaves some 1e-8.
      const double left = std::sqrt(std::max(forward, backward));
      EXPECT_GT(vectors.residual[index], 0.8 * left);
      EXPECT_LT(vectors.residual[index], 1.25 * left);
      double gap = k > 0 ? reference[index - 1] - reference[index] : reference[0];
      if (index + 1 < reference.size()) {
        gap = std::min(gap, reference[index] - reference[index + 1]);
      }
      EXPECT_NEAR(vectors.gap[index], gap, 3 * tolerance * reference[0]);
    }
    for (std::int64_t a = 0; a < std::min<std::int64_t>(count, 5); ++a) {
      for (std::int64_t b = 0; b < a; ++b) {
        double dot = 0.0;
        for (std::int64_t c = 0; c < logical.cols; ++c) {
          dot +=
              static_cast<double>(vectors.right[static_cast<std::size_t>(a * logical.cols + c)]) *
              static_cast<double>(vectors.right[static_cast<std::size_t>(b * logical.cols + c)]);
        }
        EXPECT_NEAR(dot, 0.0, 1e-6);
      }
    }
  }
};

TEST_P(Vectors, TripletsOfSmallMatricesInEveryOrientation) {
  for (const bool wide : {false, true}) {
    for (const bool turned : {false, true}) {
      expect_triplets(spiked_matrix(wide ? 60 : 140, wide ? 140 : 60, 3, 3.0, 1), 8,
                      SpectrumMode::kDefault, turned, 1e-6);
    }
  }
}

TEST_P(Vectors, TripletsOfLargerMatricesByIteration) {
  std::vector<double> values(530);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i));
  }
  expect_triplets(matrix_with_spectrum(530, 700, values, 2), 20, SpectrumMode::kDefault, false,
                  2e-5);
  expect_triplets(gaussian_matrix(700, 530, 3), 10, SpectrumMode::kFast, false, 2e-5);
}

TEST_P(Vectors, NoMoreThanTheShortSideAndNoneOfAZeroMatrix) {
  expect_triplets(gaussian_matrix(7, 4, 5), 10, SpectrumMode::kStrict, false, 1e-6);
  MeasureOptions options;
  options.vectors = 3;
  const FloatMatrix zero{5, 9, std::vector<float>(45, 0.0F)};
  const MatrixReport report = measure_floats(zero, options);
  ASSERT_TRUE(report.vectors.has_value());
  EXPECT_EQ(report.vectors->count, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Vectors, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::vectors_test
