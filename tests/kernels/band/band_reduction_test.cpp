// Dense to band: whatever the route, the precision and the order of the threads, the band must keep
// the eigenvalues of the matrix (LAPACK in float64), and one matrix must not touch another.
#include "kernels/band/band_reduction.hpp"

#include "reduced_bands.hpp"

#include "cpu/band/band_storage.hpp"
#include "cpu/band/simd_band_reduction.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/symmetric_matrices.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

namespace vindex::test::band_reduction_test {
namespace {

using kernels::band_elements;
using kernels::BandBatch;
using kernels::BandPlan;
using kernels::BandRoute;
using kernels::kBand;
using kernels::plan_band_reduction;

/// Strips of two warps, so that small matrices have several strips.
template <typename Real>
constexpr std::size_t kSmallShared = sizeof(Real) == sizeof(float) ? 68U << 10U : 128U << 10U;

template <typename Real>
Bands reduce(const std::vector<SymmetricMatrix>& matrices, BandRoute route, cudaStream_t stream,
             std::size_t shared_bytes = kSmallShared<Real>,
             kernels::MatrixScale scale = kernels::MatrixScale::kWanted) {
  const std::int64_t order = kernels::band_order(matrices.front().order);
  std::vector<Real> padded;
  for (const SymmetricMatrix& matrix : matrices) {
    const std::vector<Real> one = matrix.padded<Real>(order);
    padded.insert(padded.end(), one.begin(), one.end());
  }
  const auto batch = static_cast<std::int64_t>(matrices.size());
  const BandPlan plan = plan_band_reduction<Real>(order, route, shared_bytes);
  DeviceArray<Real> device(padded);
  DeviceArray<Real> band(static_cast<std::size_t>(batch * band_elements(order)));
  DeviceArray<std::int32_t> exponents(
      std::vector<std::int32_t>(static_cast<std::size_t>(batch), 0));
  DeviceArray<std::byte> workspace(static_cast<std::size_t>(batch) *
                                   plan.workspace_bytes_per_matrix);
  kernels::reduce_to_band(plan,
                          BandBatch<Real>{device.data(), batch, band.data(), exponents.data(),
                                          workspace.data(), false, scale},
                          stream);
  const std::vector<Real> got = band.values();
  return {{got.begin(), got.end()}, exponents.values()};
}

const char* name_of(BandRoute route) { return route == BandRoute::kPlain ? "plain" : "tensor"; }

/// Those that this process tries.
std::vector<BandRoute> every_route() {
  std::vector<BandRoute> routes = {BandRoute::kPlain, BandRoute::kTensor};
  std::erase_if(routes, [](BandRoute route) { return !is_tried(name_of(route)); });
  return routes;
}

/// Errors seen: 1.3 for noise in float32, 10 where all eigenvalues are nearly one; 9 and 25 in
/// float64, of which the reference has its share.
template <typename Real>
constexpr double kAllowed = sizeof(Real) == sizeof(float) ? 16.0 : 40.0;
template <typename Real>
constexpr double kAllowedForNoise = sizeof(Real) == sizeof(float) ? 2.5 : 20.0;

class BandReduction : public KernelTest {
 protected:
  template <typename Real>
  void expect_kept(const std::string& name, const SymmetricMatrix& matrix, double allowed) {
    for (const BandRoute route : every_route()) {
      EXPECT_LE(error_of<Real>(matrix, reduce<Real>({matrix}, route, stream())), allowed)
          << name << " " << matrix.order << " " << name_of(route) << " float" << 8 * sizeof(Real);
    }
  }
};

TEST_P(BandReduction, EveryShapeKeepsItsEigenvalues) {
  for (const std::int64_t p : {1, 31, 33, 64, 100, 160}) {
    const SymmetricMatrix gram = gaussian_gram(p, 2 * p + 3, 0x1p20, 7);
    expect_kept<float>("gaussian", gram, kAllowedForNoise<float>);
    expect_kept<double>("gaussian", gram, kAllowedForNoise<double>);
  }
}

TEST_P(BandReduction, EverySpectrumKeepsItsEigenvalues) {
  for (const NamedSymmetricMatrix& named : symmetric_suite(70)) {
    expect_kept<float>(named.name, named.matrix, kAllowed<float>);
    expect_kept<double>(named.name, named.matrix, kAllowed<double>);
  }
}

TEST_P(BandReduction, ManyPanelsAndStripsOfEveryHeight) {
  if (GetParam() != 0 || !is_tried("tensor")) {
    GTEST_SKIP() << "one order of threads is enough for size";
  }
  const SymmetricMatrix gram = gaussian_gram(257, 300, 1.0, 3);
  for (const std::size_t shared : {std::size_t{99} << 10U, std::size_t{227} << 10U}) {
    EXPECT_LE(error_of<float>(gram, reduce<float>({gram}, BandRoute::kTensor, stream(), shared)),
              kAllowedForNoise<float>);
    EXPECT_LE(error_of<double>(gram, reduce<double>({gram}, BandRoute::kTensor, stream(), shared)),
              kAllowedForNoise<double>);
  }
}

TEST_P(BandReduction, NothingOutsideTheBand) {
  if (!is_tried("plain")) {
    GTEST_SKIP() << "of the plain variant";
  }
  const std::int64_t order = 96;
  const Bands bands = reduce<float>({gaussian_gram(90, 100, 1.0, 2)}, BandRoute::kPlain, stream());
  std::vector<double> rest = bands.band;
  for (std::int64_t column = 0; column < order; ++column) {
    for (std::int64_t row = column; row < std::min(order, column + kBand + 1); ++row) {
      rest[static_cast<std::size_t>(kernels::band_index(row, column))] = 0.0;
    }
  }
  EXPECT_EQ(rest, std::vector<double>(rest.size(), 0.0));
}

TEST_P(BandReduction, ScalesArePowersOfTwoAndChangeNoBit) {
  if (!is_tried("tensor")) {
    GTEST_SKIP() << "of tensor cores";
  }
  const SymmetricMatrix gram = gaussian_gram(70, 80, 1.0, 4);
  const Bands wanted = reduce<float>({gram}, BandRoute::kTensor, stream());
  for (const int exponent : {-90, -20, 37, 110}) {
    SymmetricMatrix scaled = gram;
    for (double& value : scaled.values) {
      value = std::ldexp(value, exponent);
    }
    const Bands got = reduce<float>({scaled}, BandRoute::kTensor, stream());
    EXPECT_EQ(got.exponents[0], wanted.exponents[0] + exponent);
    EXPECT_EQ(got.band, wanted.band);
  }
  SymmetricMatrix scaled = gram;
  for (double& value : scaled.values) {
    value = std::ldexp(value, -wanted.exponents[0]);
  }
  const Bands got = reduce<float>({scaled}, BandRoute::kTensor, stream(), kSmallShared<float>,
                                  kernels::MatrixScale::kApplied);
  EXPECT_EQ(got.exponents[0], 0) << "whose matrix was scaled before";
  EXPECT_EQ(got.band, wanted.band);
}

TEST_P(BandReduction, BatchesGiveTheBitsOfSingleMatrices) {
  const std::vector<SymmetricMatrix> all = {gaussian_gram(100, 120, 1.0, 1), SymmetricMatrix(100),
                                            gaussian_gram(100, 50, 0x1p30, 2)};
  for (const BandRoute route : every_route()) {
    const Bands together = reduce<float>(all, route, stream());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Bands alone = reduce<float>({all[i]}, route, stream());
      EXPECT_EQ(together.exponents[i], alone.exponents[0]);
      const auto first =
          together.band.begin() + static_cast<std::ptrdiff_t>(i) * band_elements(128);
      EXPECT_TRUE(std::equal(alone.band.begin(), alone.band.end(), first)) << name_of(route);
    }
  }
}

TEST_P(BandReduction, AMatrixThatIsNotFiniteHarmsNoOther) {
  if (GetParam() != 0) {
    GTEST_SKIP() << "one order of threads is enough for what no other block sees";
  }
  const SymmetricMatrix good = gaussian_gram(70, 80, 1.0, 8);
  const double kInfinity = std::numeric_limits<double>::infinity();
  const double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const BandRoute route : every_route()) {
    const Bands alone = reduce<float>({good}, route, stream());
    // On the diagonal, in the first panel, in the last, and everywhere.
    for (const auto& [row, column, value] :
         {std::tuple(50, 3, kNone), std::tuple(69, 68, kInfinity), std::tuple(-1, -1, kNone)}) {
      SymmetricMatrix bad = good;
      if (row < 0) {
        std::fill(bad.values.begin(), bad.values.end(), value);
      } else {
        bad.at(row, column) = bad.at(column, row) = value;
      }
      const Bands bands = reduce<float>({bad, good}, route, stream());
      const auto elements = static_cast<std::size_t>(band_elements(96));
      for (std::size_t i = 0; i < elements; ++i) {
        ASSERT_EQ(bands.band[elements + i], alone.band[i]) << name_of(route);
      }
      const auto end = bands.band.begin() + static_cast<std::ptrdiff_t>(elements);
      EXPECT_TRUE(std::any_of(bands.band.begin(), end, [](double x) { return !std::isfinite(x); }))
          << name_of(route) << " " << row << " " << column;
    }
  }
}

TEST_P(BandReduction, AgreesWithTheHost) {
  if (!is_tried("tensor")) {
    GTEST_SKIP() << "of tensor cores";
  }
  const std::int64_t p = 100;
  const std::int64_t order = kernels::band_order(p);
  const SymmetricMatrix gram = gaussian_gram(p, 120, 1.0, 12);
  const Bands bands = reduce<double>({gram}, BandRoute::kTensor, stream());
  // The host's band is narrower: what they have in common is what they are similar to.
  std::vector<double> band(static_cast<std::size_t>(cpu::band_elements(p)));
  std::vector<double> workspace(static_cast<std::size_t>(cpu::band_workspace_elements(p)));
  cpu::reduce_to_band(gram.values.data(), p, p, 1.0, band, workspace, cpu::SimdLevel::kPortable);
  SymmetricMatrix host(order);
  for (std::int64_t column = 0; column < p; ++column) {
    for (std::int64_t row = column; row < std::min(p, column + cpu::kBand + 1); ++row) {
      const double value = band[static_cast<std::size_t>(column * cpu::kBandStride + row)];
      host.at(row, column) = value;
      host.at(column, row) = value;
    }
  }
  const std::vector<double> wanted = eigenvalues_of(host);
  const std::vector<double> got = eigenvalues_of(dense_of(bands, order));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 30 * std::numeric_limits<double>::epsilon() * wanted.back());
  }
}

TEST(BandPlanTest, StripsFitTheirSharedMemory) {
  const auto rows = [](auto zero, std::size_t kib) {
    return plan_band_reduction<decltype(zero)>(2048, BandRoute::kTensor, kib << 10U).strip_rows;
  };
  EXPECT_EQ(rows(0.0F, 99), 128);   // sm_89
  EXPECT_EQ(rows(0.0F, 163), 256);  // sm_80
  EXPECT_EQ(rows(0.0F, 227), 256);  // sm_90
  EXPECT_EQ(rows(0.0, 99), 32);
  EXPECT_EQ(rows(0.0, 163), 96);
  EXPECT_EQ(rows(0.0, 227), 128);
  EXPECT_THROW((void)rows(0.0, 48), Error);
}

TEST(BandPlanTest, OrdersOutsideAreRefused) {
  const std::size_t shared = std::size_t{227} << 10U;
  const auto plan = [&](std::int64_t order) {
    return plan_band_reduction<float>(order, BandRoute::kPlain, shared);
  };
  EXPECT_THROW((void)plan(0), Error);
  EXPECT_THROW((void)plan(33), Error);
  EXPECT_THROW((void)plan(kernels::largest_band_order() + kBand), Error);
  EXPECT_EQ(plan(kernels::largest_band_order()).order, kernels::largest_band_order());
  EXPECT_GE(kernels::largest_band_order(), 8192);
}

}  // namespace

INSTANTIATE_THREAD_ORDERS(BandReduction);

}  // namespace vindex::test::band_reduction_test
