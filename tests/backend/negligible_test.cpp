// Matrices in whose reduction squares underflow: entries fall so fast, or cancel so well, that what
// a reflector is to clear is next to nothing. Made of such squares it was not orthogonal, and
// damaged all that was left (core/constants.hpp).
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vindex::test::negligible_test {
namespace {

FloatMatrix zeros(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, std::vector<float>(static_cast<std::size_t>(rows * cols), 0.0F)};
}

/// diag(s^i) (I - c U), U ones above the diagonal; s and c sine and cosine of the angle. Source:
/// Kahan, "Numerical linear algebra" (1966).
FloatMatrix kahan(std::int64_t n, double angle) {
  FloatMatrix out = zeros(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const double scale = std::pow(std::sin(angle), static_cast<double>(i));
    for (std::int64_t j = i; j < n; ++j) {
      out.at(i, j) = static_cast<float>(i == j ? scale : -std::cos(angle) * scale);
    }
  }
  return out;
}

/// Triangles of ones in blocks of 32, each row times a number in [.5, 1).
FloatMatrix triangles(std::int64_t n, std::mt19937_64& random) {
  std::uniform_real_distribution<double> factor(0.5, 1.0);
  FloatMatrix out = zeros(n, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(factor(random));
    for (std::int64_t j = i; j < i / 32 * 32 + 32 && j < n; ++j) {
      out.at(i, j) = value;
    }
  }
  return out;
}

/// Noise whose columns fall to 10^-decades of the first.
FloatMatrix graded(std::int64_t rows, std::int64_t cols, double decades, std::uint64_t seed) {
  FloatMatrix out = gaussian_matrix(rows, cols, seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out.at(r, c) *= static_cast<float>(
          std::pow(10.0, -decades * static_cast<double>(c) / static_cast<double>(cols)));
    }
  }
  return out;
}

/// Powers of two down to 2^-least in each factor.
FloatMatrix rank_one(std::int64_t rows, std::int64_t cols, int least, std::mt19937_64& random) {
  std::uniform_int_distribution<int> exponent(-least, 0);
  std::vector<int> left, right;
  for (std::int64_t r = 0; r < rows; ++r) {
    left.push_back(exponent(random));
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    right.push_back(exponent(random));
  }
  FloatMatrix out = zeros(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out.at(r, c) =
          std::ldexp(1.0F, left[static_cast<std::size_t>(r)] + right[static_cast<std::size_t>(c)]);
    }
  }
  return out;
}

std::vector<NamedMatrix> hard_matrices(bool is_emulated) {
  std::mt19937_64 random(11);
  std::vector<NamedMatrix> out;
  const auto add = [&](std::string name, FloatMatrix matrix) {
    out.push_back({std::move(name), false, std::move(matrix)});
  };
  add("Kahan 31", kahan(128, 0.8 + 0.75 * 31 / 39.0));
  const std::int64_t p = is_emulated ? 72 : 192;
  add("triangles", triangles(p, random));
  add("graded by 38 decades", graded(2 * p, p, 38.0, 5));
  add("powers of two, far down", rank_one(2 * p, p, 70, random));
  if (!is_emulated) {
    add("Kahan 38", kahan(384, 0.8 + 0.75 * 38 / 39.0));
    add("graded by 20 decades", graded(2 * p, p, 20.0, 4));
    add("powers of two", rank_one(2 * p, p, 40, random));
    for (int draw = 0; draw < 8; ++draw) {
      add("triangles, draw " + std::to_string(draw), triangles(256, random));
    }
    add("graded beyond the sizes of float64", graded(560, 544, 38.0, 6));
    add("powers of two beyond them", rank_one(560, 544, 60, random));
  }
  return out;
}

class Negligible : public BackendTest {
 protected:
  void expect_right(const NamedMatrix& one, const std::vector<double>& reference,
                    const MeasureOptions& options) {
    const auto p = static_cast<double>(reference.size());
    SCOPED_TRACE(one.name + ", mode " + std::to_string(static_cast<int>(options.mode)) +
                 ", route " + options.svd_route);
    const MatrixReport report = measure_floats(one.matrix, options);
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    EXPECT_EQ(report.reason.find("refutes"), std::string::npos) << report.reason;
    const double allowed = report.sigma_error + p * 0x1p-52 * reference[0];
    EXPECT_LT(report.sigma_error, 1e-3 * reference[0]);
    for (std::size_t i = 0; i < report.sigma.size(); ++i) {
      ASSERT_NEAR(report.sigma[i], reference[i], allowed) << report.method << " at " << i;
    }
    if (options.mode == SpectrumMode::kStrict) {
      EXPECT_LE(report.sigma_error, 50.0 * p * 0x1p-52 * reference[0]) << report.method;
    }
  }
};

TEST_P(Negligible, SquaresMakeNoWrongReflectors) {
  for (const NamedMatrix& one : hard_matrices(is_emulated())) {
    const std::vector<double> reference = reference_singular_values(one.matrix);
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      expect_right(one, reference, with_mode(mode));
    }
  }
}

// Matrices of this order begin in float64, unless a route is named. Entries of Kahan's Gram matrix
// depend on the smaller index alone, so that float32 rounds them in patterns: what a device states
// has to know it (GramArithmetic::reduction_chain). Damaged reflectors left a hundredth of the
// largest square.
TEST_P(Negligible, SquaresMakeNoWrongReflectorsOnAnyRouteOfADevice) {
  if (!is_cuda()) {
    GTEST_SKIP() << "routes of a device";
  }
  std::vector<NamedMatrix> matrices = hard_matrices(true);
  for (const double angle : {1.2, 1.45}) {
    matrices.push_back({"Kahan of order 256, " + std::to_string(angle), false, kahan(256, angle)});
  }
  for (const NamedMatrix& one : matrices) {
    const std::vector<double> reference = reference_singular_values(one.matrix);
    for (const char* const route :
         {"two-stage+gram-mma+band-plain", "two-stage+gram-mma+band-plain+kernels-former",
          "two-stage+gram-mma+band-tensor", "two-stage+gram-wgmma+band-tensor",
          "two-stage+gram-wgmma+band-tensor+kernels-former"}) {
      for (const SpectrumMode mode : {SpectrumMode::kFast, SpectrumMode::kDefault}) {
        MeasureOptions options = with_mode(mode);
        options.svd_route = route;
        expect_right(one, reference, options);
      }
    }
    for (const char* const route : {"two-stage+band-plain", "two-stage+band-tensor"}) {
      MeasureOptions options = with_mode(SpectrumMode::kStrict);
      options.svd_route = route;
      expect_right(one, reference, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Negligible, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::negligible_test
