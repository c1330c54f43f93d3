// What must not change a spectrum, on every back end: transposing, permuting, signs of rows, zero
// padding, powers of two, and the batch that a matrix is measured in.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vindex::test::invariance_test {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();

class Invariance : public BackendTest {};

TEST_P(Invariance, TransposeRowOrderSignsAndZeroPaddingKeepTheSpectrum) {
  const FloatMatrix matrix = spiked_matrix(90, 310, 4, 3.0, 21);
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const double tolerance = mode == SpectrumMode::kStrict ? 50 * 90 * kEps64 : 3e-6;
    const auto sigma = measure_floats(matrix, with_mode(mode)).sigma;
    const auto expect_same = [&](const FloatMatrix& other, const char* what) {
      const auto values = measure_floats(other, with_mode(mode)).sigma;
      ASSERT_GE(values.size(), sigma.size());
      for (std::size_t i = 0; i < sigma.size(); ++i) {
        EXPECT_NEAR(values[i], sigma[i], tolerance * sigma[0]) << what << " value " << i;
      }
      for (std::size_t i = sigma.size(); i < values.size(); ++i) {
        EXPECT_EQ(values[i], 0.0) << what;
      }
    };
    expect_same(transposed(matrix), "transpose");
    FloatMatrix changed = matrix;
    for (std::int64_t r = 0; r < matrix.rows; ++r) {
      for (std::int64_t c = 0; c < matrix.cols; ++c) {
        changed.at(r, c) = matrix.at((r * 7 + 3) % matrix.rows, (c * 11 + 5) % matrix.cols);
      }
    }
    expect_same(changed, "permutation");
    changed = matrix;
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      changed.at(17, c) = -changed.at(17, c);
    }
    expect_same(changed, "sign of a row");
    FloatMatrix padded{matrix.rows + 3, matrix.cols + 30, {}};
    padded.values.assign(static_cast<std::size_t>(padded.rows * padded.cols), 0.0F);
    for (std::int64_t r = 0; r < matrix.rows; ++r) {
      for (std::int64_t c = 0; c < matrix.cols; ++c) {
        padded.at(r + 1, c + 9) = matrix.at(r, c);
      }
    }
    expect_same(padded, "zero padding");
  }
}

TEST_P(Invariance, PowersOfTwoScaleExactly) {
  const FloatMatrix matrix = gaussian_matrix(70, 260, 22);
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const auto sigma = measure_floats(matrix, with_mode(mode)).sigma;
    for (const int exponent : {-90, -60, -7, 5, 30, 100}) {
      FloatMatrix scaled = matrix;
      for (float& value : scaled.values) {
        value = std::ldexp(value, exponent);
      }
      const auto values = measure_floats(scaled, with_mode(mode)).sigma;
      ASSERT_EQ(values.size(), sigma.size());
      for (std::size_t i = 0; i < sigma.size(); ++i) {
        ASSERT_EQ(values[i], std::ldexp(sigma[i], exponent)) << exponent << " value " << i;
      }
    }
  }
}

TEST_P(Invariance, BatchesAndRepeatsGiveTheSameBits) {
  const FloatMatrix a = gaussian_matrix(64, 300, 31);
  const FloatMatrix b = spiked_matrix(300, 64, 3, 2.0, 32);
  const auto first = make_memory_input(as_encoded(a));
  const auto second = make_memory_input(as_encoded(b));
  std::vector<MatrixInput*> batch = {first.get(), second.get(), first.get(), second.get(),
                                     first.get()};
  for (const SpectrumMode mode :
       {SpectrumMode::kDefault, SpectrumMode::kStrict, SpectrumMode::kFast}) {
    std::vector<MatrixReport> out(batch.size());
    backend_->measure(batch, with_mode(mode), 0, out);
    const auto alone_a = measure_floats(a, with_mode(mode)).sigma;
    const auto alone_b = measure_floats(b, with_mode(mode)).sigma;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(out[i].sigma, i % 2 == 0 ? alone_a : alone_b) << i;
    }
  }
  backend_->measure({}, {}, 0, {});
}

INSTANTIATE_TEST_SUITE_P(Backends, Invariance, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::invariance_test
