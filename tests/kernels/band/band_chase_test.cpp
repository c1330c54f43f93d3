// Bulge chasing: the tridiagonal matrix has the band's eigenvalues (LAPACK dsbev), for every shape
// of the pipeline and every pair of precisions.
#include "kernels/band/chase/band_chase.hpp"

#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/tridiagonal_reference.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vindex::test::band_chase_test {
namespace {

using kernels::chase_shape;
using kernels::ChaseShape;

constexpr std::size_t kHopperShared = 232448;
constexpr std::size_t kAmpereShared = 166912;
constexpr std::size_t kAdaShared = 101376;
constexpr double kEps64 = 0x1p-53;
constexpr double kEps32 = 0x1p-24;

class BandChase : public KernelTest {
 protected:
  template <typename Stored, typename Real>
  std::vector<Tridiagonal> chase(const std::vector<std::vector<double>>& bands, std::int64_t n,
                                 const ChaseShape& shape) {
    const auto stride = static_cast<std::size_t>(kernels::chase_elements(n));
    // What the first stage does not fill must not matter.
    std::vector<Stored> stored(stride * bands.size(), std::numeric_limits<Stored>::quiet_NaN());
    for (std::size_t b = 0; b < bands.size(); ++b) {
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = j; i < std::min(n, j + 33); ++i) {
          stored[b * stride + static_cast<std::size_t>(kernels::band_index(i, j))] =
              static_cast<Stored>(bands[b][static_cast<std::size_t>(j * 33 + i - j)]);
        }
      }
    }
    DeviceArray<Stored> device(stored);
    DeviceArray<double> diagonal(bands.size() * static_cast<std::size_t>(n));
    DeviceArray<double> off_diagonal(diagonal.size());
    kernels::chase_bands<Stored, Real>(device.data(), n, static_cast<std::int64_t>(bands.size()),
                                       shape, diagonal.data(), off_diagonal.data(), stream());
    const std::vector<double> d = diagonal.values();
    const std::vector<double> e = off_diagonal.values();
    std::vector<Tridiagonal> out;
    for (std::size_t b = 0; b < bands.size(); ++b) {
      const auto begin = static_cast<std::ptrdiff_t>(b * static_cast<std::size_t>(n));
      out.push_back(
          {{d.begin() + begin, d.begin() + begin + n}, {e.begin() + begin, e.begin() + begin + n}});
    }
    return out;
  }
};

TEST_P(BandChase, KeepsTheEigenvaluesInDouble) {
  const ChaseShape shape = chase_shape(kHopperShared, sizeof(double));
  for (const std::int64_t n : {1, 2, 3, 5, 31, 32, 33, 34, 40, 64, 65, 66, 97, 150, 300}) {
    if (GetParam() != 0 && n != 2 && n != 66 && n != 150) {
      continue;
    }
    const std::vector<double> band = band_of_noise(n, static_cast<std::uint64_t>(n));
    const Tridiagonal got = chase<double, double>({band}, n, shape)[0];
    EXPECT_EQ(got.off_diagonal.back(), 0.0);
    // Twelve draws of order 97 had 30 on average and 46 at most, of order 300 46 and 75.
    EXPECT_LE(largest_difference(values_of(got), values_of_band(band, n)),
              (10.0 + 0.4 * static_cast<double>(n)) * kEps64)
        << "n = " << n;
  }
}

/// Bands that reflectors may find hard, each of norm about one.
std::vector<std::pair<std::string, std::vector<double>>> hard_bands(std::int64_t n) {
  std::vector<std::pair<std::string, std::vector<double>>> out;
  const std::vector<double> noise = band_of_noise(n, 23);
  const auto add = [&](const char* name, auto change) {
    std::vector<double> band = noise;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = j; i < std::min(n, j + 33); ++i) {
        double& value = band[static_cast<std::size_t>(j * 33 + i - j)];
        value = change(value, i, j);
      }
    }
    out.emplace_back(name, std::move(band));
  };
  const auto grade = [n](std::int64_t k) {
    return std::exp2(-40.0 * static_cast<double>(k) / static_cast<double>(n));
  };
  add("one cluster", [](double x, auto i, auto j) { return (i == j ? 1.0 : 0.0) + 1e-9 * x; });
  add("clusters", [](double x, auto i, auto j) {
    return (i == j ? 0.1 * static_cast<double>(1 + i / 20) : 0.0) + 1e-12 * x;
  });
  add("graded", [&](double x, auto i, auto j) { return x * grade(i) * grade(j); });
  add("graded upwards",
      [&](double x, auto i, auto j) { return x * grade(n - 1 - i) * grade(n - 1 - j); });
  add("zero columns", [](double x, auto i, auto j) { return i % 3 == 1 || j % 3 == 1 ? 0.0 : x; });
  add("zero blocks",
      [](double x, auto i, auto j) { return i / 40 != j / 40 || i / 40 == 1 ? 0.0 : x; });
  add("far corners",
      [](double x, auto i, auto j) { return i - j == 32 || i == j ? x : 1e-20 * x; });
  add("no signs", [](double x, auto, auto) { return std::abs(x); });
  return out;
}

TEST_P(BandChase, KeepsTheEigenvaluesOfHardBands) {
  constexpr std::int64_t kN = 100;
  const ChaseShape in_double = chase_shape(kHopperShared, sizeof(double));
  const ChaseShape in_float = chase_shape(kHopperShared, sizeof(float));
  for (const auto& [name, band] : hard_bands(kN)) {
    if (GetParam() != 0 && name != "zero columns") {
      continue;
    }
    const std::vector<double> wanted = values_of_band(band, kN);
    const double norm = largest_magnitude(wanted);
    for (const int exponent : {0, -300, 300}) {
      if (exponent != 0 && name != "zero columns") {
        continue;
      }
      std::vector<double> scaled = band;
      for (double& value : scaled) {
        value = std::ldexp(value, exponent);
      }
      std::vector<double> got = values_of(chase<double, double>({scaled}, kN, in_double)[0]);
      for (double& value : got) {
        value = std::ldexp(value, -exponent);
      }
      EXPECT_LE(largest_difference(got, wanted),
                (20.0 + 0.3 * static_cast<double>(kN)) * kEps64 * norm)
          << name << " times 2^" << exponent;
    }
    std::vector<double> rounded = band;
    for (double& value : rounded) {
      value = static_cast<float>(value);
    }
    EXPECT_LE(largest_difference(values_of(chase<float, float>({band}, kN, in_float)[0]),
                                 values_of_band(rounded, kN)),
              40.0 * kEps32 * norm)
        << name;
  }
}

TEST_P(BandChase, EveryShapeGivesTheSameBits) {
  constexpr std::int64_t kN = 170;
  const std::vector<double> band = band_of_noise(kN, 7);
  const Tridiagonal hopper =
      chase<double, double>({band}, kN, chase_shape(kHopperShared, sizeof(double)))[0];
  const ChaseShape ampere_shape = chase_shape(kAmpereShared, sizeof(double));
  EXPECT_EQ(chase_shape(kHopperShared, sizeof(double)).sweeps, 7);
  EXPECT_EQ(ampere_shape.sweeps, 5);
  const Tridiagonal ampere = chase<double, double>({band}, kN, ampere_shape)[0];
  EXPECT_EQ(hopper.diagonal, ampere.diagonal);
  EXPECT_EQ(hopper.off_diagonal, ampere.off_diagonal);
  const ChaseShape ada_shape = chase_shape(kAdaShared, sizeof(double));
  EXPECT_EQ(ada_shape.sweeps, 2);
  const Tridiagonal ada = chase<double, double>({band}, kN, ada_shape)[0];
  EXPECT_EQ(hopper.diagonal, ada.diagonal);
  EXPECT_EQ(hopper.off_diagonal, ada.off_diagonal);
}

TEST_P(BandChase, KeepsTheEigenvaluesInFloat) {
  for (const std::int64_t n : {4, 65, 200}) {
    const std::vector<double> band = band_of_noise(n, static_cast<std::uint64_t>(n));
    std::vector<double> rounded = band;
    for (double& value : rounded) {
      value = static_cast<float>(value);
    }
    const std::vector<double> reference = values_of_band(rounded, n);
    const Tridiagonal mixed =
        chase<float, double>({band}, n, chase_shape(kHopperShared, sizeof(double)))[0];
    EXPECT_LE(largest_difference(values_of(mixed), reference), 2.0 * kEps32) << "n = " << n;
    const Tridiagonal small =
        chase<float, float>({band}, n, chase_shape(kAdaShared, sizeof(float)))[0];
    EXPECT_LE(largest_difference(values_of(small), reference), 16.0 * kEps32) << "n = " << n;
    const Tridiagonal large =
        chase<float, float>({band}, n, chase_shape(kHopperShared, sizeof(float)))[0];
    EXPECT_EQ(small.diagonal, large.diagonal);
    EXPECT_EQ(small.off_diagonal, large.off_diagonal);
  }
}

TEST_P(BandChase, ABatchGivesTheBitsOfItsMembers) {
  constexpr std::int64_t kN = 75;
  const ChaseShape shape = chase_shape(kHopperShared, sizeof(double));
  std::vector<std::vector<double>> bands;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    bands.push_back(band_of_noise(kN, seed));
  }
  // One broken matrix stays alone with it; a zero one stays zero.
  bands[1][40] = std::numeric_limits<double>::quiet_NaN();
  bands[2].assign(bands[2].size(), 0.0);
  const std::vector<Tridiagonal> all = chase<double, double>(bands, kN, shape);
  for (const std::size_t b : {0U, 3U}) {
    const Tridiagonal alone = chase<double, double>({bands[b]}, kN, shape)[0];
    EXPECT_EQ(all[b].diagonal, alone.diagonal);
    EXPECT_EQ(all[b].off_diagonal, alone.off_diagonal);
  }
  EXPECT_EQ(all[2].diagonal, std::vector<double>(kN, 0.0));
  EXPECT_EQ(all[2].off_diagonal, std::vector<double>(kN, 0.0));
  double sum = 0.0;
  for (std::size_t i = 0; i < kN; ++i) {
    sum += all[1].diagonal[i] + all[1].off_diagonal[i];
  }
  EXPECT_TRUE(std::isnan(sum));
}

TEST_P(BandChase, LeavesATridiagonalMatrixAsItIs) {
  constexpr std::int64_t kN = 70;
  std::vector<double> band(kN * 33, 0.0);
  for (std::int64_t j = 0; j < kN; ++j) {
    band[static_cast<std::size_t>(j * 33)] = 0.01 * static_cast<double>(j);
    band[static_cast<std::size_t>(j * 33 + 1)] = j + 1 < kN ? 0.5 : 0.0;
  }
  const Tridiagonal got =
      chase<double, double>({band}, kN, chase_shape(kHopperShared, sizeof(double)))[0];
  for (std::size_t j = 0; j < kN; ++j) {
    EXPECT_EQ(got.diagonal[j], band[j * 33]);
    EXPECT_EQ(got.off_diagonal[j], band[j * 33 + 1]);
  }
}

TEST(ChaseShape, IsRefusedWhereNothingFits) {
  EXPECT_THROW((void)chase_shape(48U << 10U, sizeof(double)), UsageError);
}

INSTANTIATE_THREAD_ORDERS(BandChase);

}  // namespace
}  // namespace vindex::test::band_chase_test
