// Two-stage tridiagonalisation: matrices built with known eigenvalues must keep them, at every
// level, size and scale.
#include "cpu/tridiagonal/simd_tridiagonal.hpp"

#include "cpu/tridiagonal/simd_bisection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace vindex::cpu::simd_tridiagonal_test {
namespace {

// Q diag(values) Q^T with Q a product of `reflectors` random Householder reflections, in float64.
std::vector<double> matrix_with(const std::vector<double>& values, int reflectors, unsigned seed) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<double> matrix(n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    matrix[i * n + i] = values[i];
  }
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v(n), product(n);
  for (int r = 0; r < reflectors; ++r) {
    double norm = 0.0;
    for (double& x : v) {
      x = normal(generator);
      norm += x * x;
    }
    double overlap = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      v[i] /= std::sqrt(norm);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      product[i] = 0.0;
      for (std::int64_t j = 0; j < n; ++j) {
        product[i] += matrix[i * n + j] * v[j];
      }
      overlap += product[i] * v[i];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        matrix[i * n + j] -=
            2.0 * (product[i] * v[j] + v[i] * product[j]) - 4.0 * overlap * v[i] * v[j];
      }
    }
  }
  return matrix;
}

// Singular values of LAPACK's test matrices (latms MODE 1 to 6) with largest 1.
std::vector<double> mode_values(int mode, int n, double kappa) {
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> values(n);
  for (int i = 0; i < n; ++i) {
    const double t = n > 1 ? static_cast<double>(i) / (n - 1) : 0.0;
    switch (mode) {
      case 1:
        values[i] = i == 0 ? 1.0 : 1.0 / kappa;
        break;
      case 2:
        values[i] = i + 1 < n ? 1.0 : 1.0 / kappa;
        break;
      case 3:
        values[i] = std::pow(kappa, -t);
        break;
      case 4:
        values[i] = 1.0 - t * (1.0 - 1.0 / kappa);
        break;
      case 5:
        values[i] = std::pow(kappa, -uniform(generator));
        break;
      default:
        values[i] = uniform(generator);
    }
  }
  return values;
}

template <typename T>
std::vector<double> eigenvalues_of(const std::vector<double>& matrix, std::int64_t n,
                                   SimdLevel level, std::int64_t padding = 0) {
  const std::int64_t stride = n + padding;
  std::vector<T> lower(n * stride, std::numeric_limits<T>::quiet_NaN());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      lower[i * stride + j] = static_cast<T>(matrix[i * n + j]);
    }
  }
  const std::size_t bytes = tridiagonalise_workspace_bytes(n, sizeof(T));
  std::vector<std::byte> buffer(bytes + 64);
  void* start = buffer.data();
  std::size_t room = buffer.size();
  std::align(64, bytes, start, room);
  std::vector<double> diagonal(n), off_diagonal(n), values(n);
  tridiagonalise(lower.data(), n, stride, diagonal, off_diagonal,
                 {static_cast<std::byte*>(start), bytes}, nullptr, level);
  tridiagonal_eigenvalues(diagonal, off_diagonal, values);
  return values;
}

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> all;
  for (const SimdLevel level : {SimdLevel::kPortable, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (level <= best_simd_level()) {
      all.push_back(level);
    }
  }
  return all;
}

template <typename T>
void expect_values(std::vector<double> wanted, const std::vector<double>& matrix, SimdLevel level,
                   double allowed_epsilons) {
  std::sort(wanted.begin(), wanted.end());
  const auto n = static_cast<std::int64_t>(wanted.size());
  const std::vector<double> values = eigenvalues_of<T>(matrix, n, level);
  double norm = 0.0;
  for (const double value : wanted) {
    norm = std::max(norm, std::abs(value));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    ASSERT_NEAR(values[i], wanted[i], allowed_epsilons * std::numeric_limits<T>::epsilon() * norm)
        << i << " of " << n << " level " << static_cast<int>(level);
  }
}

TEST(TridiagonaliseTest, EverySizeAroundBlockBoundaries) {
  for (const int n : {1, 2, 3, 31, 32, 33, 63, 64, 65, 95, 97, 130}) {
    std::vector<double> wanted(n);
    for (int i = 0; i < n; ++i) {
      wanted[i] = std::cos(1.7 * i) * (1.0 + i);
    }
    const std::vector<double> matrix = matrix_with(wanted, 3, 5);
    for (const SimdLevel level : levels()) {
      expect_values<float>(wanted, matrix, level, 8.0);
      expect_values<double>(wanted, matrix, level, 20.0);
    }
  }
}

TEST(TridiagonaliseTest, ClusteredAndGradedSpectraKeepTheDefaultPromise) {
  // |s_i - ref| <= (2e-6 + 1e-6 s_1 / s_i) s_1 for the square roots of the eigenvalues.
  constexpr int kSize = 320;
  for (int mode = 1; mode <= 6; ++mode) {
    std::vector<double> sigma = mode_values(mode, kSize, 100.0);
    std::vector<double> lambda = sigma;
    for (double& value : lambda) {
      value *= value;
    }
    const std::vector<double> matrix = matrix_with(lambda, 3, 17U + mode);
    std::sort(sigma.begin(), sigma.end());
    for (const SimdLevel level : levels()) {
      const std::vector<double> values = eigenvalues_of<float>(matrix, kSize, level);
      for (int i = 0; i < kSize; ++i) {
        const double allowed = 2e-6 + 1e-6 / sigma[i];
        ASSERT_NEAR(std::sqrt(std::max(values[i], 0.0)), sigma[i], allowed)
            << "mode " << mode << " index " << i;
      }
    }
  }
}

/// Aligned storage.
class Bytes {
 public:
  explicit Bytes(std::size_t count) : buffer_(count + 64), count_(count) {}
  std::span<std::byte> span() {
    void* start = buffer_.data();
    std::size_t room = buffer_.size();
    std::align(64, count_, start, room);
    return {static_cast<std::byte*>(start), count_};
  }

 private:
  std::vector<std::byte> buffer_;
  std::size_t count_;
};

class AfterPanels final : public NarrowRule {
 public:
  explicit AfterPanels(int panels) : panels_(panels) {}
  bool allows(double /*norm_squared*/, std::int64_t /*order*/) const override {
    return ++asked_ == panels_;
  }

 private:
  int panels_;
  mutable int asked_ = 0;
};

// From whichever panel on the rest goes on in float32, its error is that of float32 arithmetic on
// what was left, and no more.
TEST(TridiagonaliseTest, ARestInFloat32RoundsAsWhatIsLeft) {
  for (const int n : {130, 200, 321}) {
    const std::vector<double> wanted = mode_values(3, n, 1e8);
    const std::vector<double> matrix = matrix_with(wanted, 3, 21);
    double norm_squared = 0.0;
    for (const double x : matrix) {
      norm_squared += x * x;
    }
    std::vector<double> ascending = wanted;
    std::sort(ascending.begin(), ascending.end());
    for (const SimdLevel level : levels()) {
      for (const int panel : {1, 2, 5, 1000}) {
        SCOPED_TRACE(std::to_string(n) + " panel " + std::to_string(panel));
        std::vector<double> in_place = matrix;
        Bytes wide(tridiagonalise_workspace_bytes(n, sizeof(double)));
        Bytes narrow(tridiagonalise_workspace_bytes(n, sizeof(float)));
        std::vector<double> diagonal(n), off_diagonal(n), values(n), band(band_elements(n));
        BandForm form{.band = band};
        const AfterPanels rule(panel);
        NarrowRest rest{.norm_squared = norm_squared,
                        .rule = &rule,
                        .room = reinterpret_cast<float*>(in_place.data()),
                        .workspace = narrow.span()};
        tridiagonalise_mixed(in_place.data(), n, n, diagonal, off_diagonal, wide.span(), rest,
                             &form, level);
        tridiagonal_eigenvalues(diagonal, off_diagonal, values);
        EXPECT_EQ(rest.columns, panel == 1000 ? n : panel * kBand);
        double left = 0.0;
        if (panel != 1000) {
          for (std::int64_t j = rest.columns; j < band_order(n); ++j) {
            for (std::int64_t i = 0; i <= kBand; ++i) {
              const double entry = std::ldexp(band[j * kBandStride + j + i], form.exponent);
              left += (i == 0 ? 1.0 : 2.0) * entry * entry;
            }
          }
          EXPECT_NEAR(std::sqrt(rest.left_norm_squared), std::sqrt(left),
                      1e-6 * std::sqrt(left) + 1e-7 * std::sqrt(norm_squared));
          EXPECT_LT(left, panel == 5 ? 0.01 * norm_squared : norm_squared);
        }
        const double allowed = 8.0 * std::numeric_limits<float>::epsilon() * std::sqrt(left) +
                               20.0 * std::numeric_limits<double>::epsilon();
        for (int i = 0; i < n; ++i) {
          ASSERT_NEAR(values[i], ascending[i], allowed) << i;
        }
      }
    }
  }
}

TEST(TridiagonaliseTest, SparseMatricesNeedNoReflections) {
  for (const SimdLevel level : levels()) {
    std::vector<double> diagonal(100);
    for (int i = 0; i < 100; ++i) {
      diagonal[i] = 100.0 - i;
    }
    expect_values<float>(diagonal, matrix_with(diagonal, 0, 1), level, 1.0);
    expect_values<float>(std::vector<double>(70, 0.0), std::vector<double>(70 * 70, 0.0), level,
                         0.0);
    // Rank one: all but one eigenvalue vanish.
    std::vector<double> one(90, 0.0);
    one[0] = 4.0;
    expect_values<float>(one, matrix_with(one, 2, 9), level, 8.0);
  }
}

TEST(TridiagonaliseTest, ExtremeScalesAreExact) {
  const std::vector<double> wanted = {3.0, -2.0, 1.5, 0.25, 1.0, -0.75, 2.5};
  const std::vector<double> matrix = matrix_with(wanted, 4, 2);
  const std::vector<double> values = eigenvalues_of<float>(matrix, 7, best_simd_level());
  for (const int exponent : {-100, 100}) {
    std::vector<double> scaled = matrix;
    for (double& x : scaled) {
      x = std::ldexp(x, exponent);
    }
    const std::vector<double> scaled_values = eigenvalues_of<float>(scaled, 7, best_simd_level());
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(scaled_values[i], std::ldexp(values[i], exponent));
    }
  }
}

TEST(TridiagonaliseTest, TheStrideAndTheOtherTriangleDoNotMatter) {
  const std::vector<double> matrix = matrix_with(mode_values(4, 100, 10.0), 3, 4);
  EXPECT_EQ(eigenvalues_of<float>(matrix, 100, best_simd_level(), 13),
            eigenvalues_of<float>(matrix, 100, best_simd_level()));
}

TEST(TridiagonaliseTest, ANonFiniteEntryMakesAllNaN) {
  std::vector<double> matrix = matrix_with(mode_values(4, 40, 10.0), 3, 4);
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    matrix[35 * 40 + 7] = bad;
    for (const double value : eigenvalues_of<float>(matrix, 40, best_simd_level())) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

}  // namespace
}  // namespace vindex::cpu::simd_tridiagonal_test
