// Batched Cholesky factorisation and the orthonormal bases made of it.
#include "kernels/top/dense_batch.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <cmath>
#include <limits>
#include <random>

namespace vindex::test::cholesky_test {
namespace {

class Cholesky : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped()) {
      blas_ = kernels::make_blas(stream());
    }
  }
  kernels::LibraryHandles handles() { return {.stream = stream(), .blas = blas_.get()}; }
  kernels::BlasHandle blas_;
};

std::vector<double> noise(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& value : out) {
    value = normal(random);
  }
  return out;
}

// B B^T + n I, column-major, on top of `below` rows of noise.
std::vector<double> definite(std::int64_t n, std::int64_t below, std::uint64_t seed) {
  const std::vector<double> b = noise(n * n, seed);
  std::vector<double> out = noise((n + below) * n, seed + 1);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = i == j ? static_cast<double>(n) : 0.0;
      for (std::int64_t k = 0; k < n; ++k) {
        sum += b[static_cast<std::size_t>(k * n + i)] * b[static_cast<std::size_t>(k * n + j)];
      }
      out[static_cast<std::size_t>(j * (n + below) + i)] = sum;
    }
  }
  return out;
}

TEST_P(Cholesky, FactorsGiveTheMatrixBack) {
  for (const std::int64_t n : {1, 2, 63, 64, 65, 130}) {
    constexpr std::int64_t kBelow = 7;
    const std::int64_t leading = n + kBelow;
    std::vector<double> matrices = definite(n, kBelow, 1);
    const std::vector<double> second = definite(n, kBelow, 5);
    matrices.insert(matrices.end(), second.begin(), second.end());
    DeviceArray<double> device(matrices);
    DeviceArray<int> info(2);
    kernels::cholesky(blas_.get(), stream(), device.data(), leading, n, leading, leading * n, 2,
                      info.data());
    EXPECT_EQ(info.values(), (std::vector<int>{0, 0}));
    const std::vector<double> l = device.values();
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto at = [&](const std::vector<double>& from, std::int64_t i, std::int64_t j) {
        return from[static_cast<std::size_t>(b * leading * n + j * leading + i)];
      };
      double worst = 0.0;
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = j; i < leading; ++i) {
          double sum = 0.0;
          for (std::int64_t k = 0; k <= j; ++k) {
            sum += at(l, i, k) * at(l, j, k);
          }
          worst = std::max(worst, std::abs(sum - at(matrices, i, j)));
        }
      }
      EXPECT_LE(worst, 1e-13 * static_cast<double>(n)) << "n = " << n;
    }
  }
}

TEST_P(Cholesky, AMatrixThatIsNotDefiniteIsNamedAndLeavesOthersAlone) {
  constexpr std::int64_t kN = 100;
  std::vector<double> matrices = definite(kN, 0, 3);
  const std::vector<double> sound = matrices;
  matrices.insert(matrices.end(), sound.begin(), sound.end());
  matrices.insert(matrices.end(), sound.begin(), sound.end());
  matrices[kN * kN + 70 * kN + 70] = -1.0;
  matrices[2 * kN * kN + 5 * kN + 5] = std::numeric_limits<double>::quiet_NaN();
  DeviceArray<double> device(matrices);
  DeviceArray<int> info(3);
  kernels::cholesky(blas_.get(), stream(), device.data(), kN, kN, kN, kN * kN, 3, info.data());
  EXPECT_EQ(info.values(), (std::vector<int>{0, 71, 6}));
  DeviceArray<double> alone(sound);
  kernels::cholesky(blas_.get(), stream(), alone.data(), kN, kN, kN, kN * kN, 1, info.data());
  const std::vector<double> all = device.values();
  const std::vector<double> one = alone.values();
  for (std::int64_t j = 0; j < kN; ++j) {
    for (std::int64_t i = j; i < kN; ++i) {
      EXPECT_EQ(all[static_cast<std::size_t>(j * kN + i)],
                one[static_cast<std::size_t>(j * kN + i)]);
    }
  }
}

TEST_P(Cholesky, ColumnsBecomeOrthonormalWhateverTheirCondition) {
  constexpr std::int64_t kP = 150;
  constexpr std::int64_t kWidth = 20;
  // Columns almost parallel: condition 1e10.
  const std::vector<double> random = noise(kP * kWidth, 11);
  const kernels::StackedBlock shape = {kP, kWidth};
  std::vector<double> stacked(static_cast<std::size_t>(shape.elements()),
                              std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t j = 0; j < kWidth; ++j) {
    for (std::int64_t i = 0; i < kP; ++i) {
      stacked[static_cast<std::size_t>(j * shape.leading() + kWidth + i)] =
          random[static_cast<std::size_t>(i)] +
          (j > 0 ? 1e-10 * random[static_cast<std::size_t>(j * kP + i)] : 0.0);
    }
  }
  DeviceArray<double> device(stacked);
  DeviceArray<int> info(1);
  kernels::orthonormalise(handles(), shape, device.data(), 1, false, info.data());
  EXPECT_EQ(info.values()[0], 0);
  const std::vector<double> q = device.values();
  for (std::int64_t a = 0; a < kWidth; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) {
      double dot = 0.0;
      for (std::int64_t i = kWidth; i < shape.leading(); ++i) {
        dot += q[static_cast<std::size_t>(a * shape.leading() + i)] *
               q[static_cast<std::size_t>(b * shape.leading() + i)];
      }
      EXPECT_NEAR(dot, a == b ? 1.0 : 0.0, 1e-14);
    }
  }
}

INSTANTIATE_THREAD_ORDERS(Cholesky);

}  // namespace
}  // namespace vindex::test::cholesky_test
