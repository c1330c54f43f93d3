// The chase whose sweeps wait for one another by flags: the bits of the one in lock step, for every
// number of sweeps and blocks, in every order of threads and blocks; and the plan of it.
#include "kernels/band/chase/shared_chase.hpp"

#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/tridiagonal_reference.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::test::shared_chase_test {
namespace {

using kernels::chase_plan;
using kernels::chase_plan_of;
using kernels::chase_shape;
using kernels::ChaseDevice;
using kernels::ChasePlan;
using kernels::ChaseShape;

constexpr ChaseDevice kHopper = {.shared_bytes = 232448, .multiprocessors = 132};
constexpr ChaseDevice kAmpere = {.shared_bytes = 166912, .multiprocessors = 108};
constexpr ChaseDevice kAda = {.shared_bytes = 101376, .multiprocessors = 58};

class SharedChase : public KernelTest {
 protected:
  /// Bands as the first stage leaves them, chased by `chase(bands, diagonal, off_diagonal)`; the
  /// diagonals, then the off-diagonals.
  template <typename Stored, typename Chase>
  std::vector<double> chased(const std::vector<std::vector<double>>& bands, std::int64_t n,
                             const Chase& chase) {
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
    const auto count = bands.size() * static_cast<std::size_t>(n);
    DeviceArray<Stored> device(stored);
    DeviceArray<double> values(2 * count);
    chase(device.data(), values.data(), values.data() + count);
    return values.values();
  }

  template <typename Stored, typename Real>
  std::vector<double> in_lock_step(const std::vector<std::vector<double>>& bands, std::int64_t n,
                                   const ChaseShape& shape) {
    return chased<Stored>(bands, n, [&](Stored* stored, double* diagonal, double* off_diagonal) {
      kernels::chase_bands<Stored, Real>(stored, n, static_cast<std::int64_t>(bands.size()), shape,
                                         diagonal, off_diagonal, stream());
    });
  }

  template <typename Stored, typename Real>
  std::vector<double> shared(const std::vector<std::vector<double>>& bands, std::int64_t n,
                             const ChasePlan& plan) {
    const auto batch = static_cast<std::int64_t>(bands.size());
    DeviceArray<int> flags(static_cast<std::size_t>(kernels::chase_flags(batch, plan.blocks)));
    return chased<Stored>(bands, n, [&](Stored* stored, double* diagonal, double* off_diagonal) {
      kernels::shared_chase<Stored, Real>(stored, n, batch, plan, flags.data(), diagonal,
                                          off_diagonal, stream());
    });
  }

  template <typename Stored, typename Real>
  void expect_the_same_bits(std::int64_t n, int sweeps, int blocks, int batch = 1) {
    std::vector<std::vector<double>> bands;
    for (int b = 0; b < batch; ++b) {
      bands.push_back(band_of_noise(n, static_cast<std::uint64_t>(n + b)));
    }
    const ChasePlan plan = chase_plan_of(n, batch, sizeof(Real), kHopper, sweeps, blocks);
    // Where elements are rounded once per group, those of a group are to be the same.
    const ChaseShape lock_step = sizeof(Stored) == sizeof(Real)
                                     ? chase_shape(kHopper.shared_bytes, sizeof(Real))
                                     : chase_shape(kHopper.shared_bytes, sizeof(Real), sweeps);
    EXPECT_EQ((shared<Stored, Real>(bands, n, plan)),
              (in_lock_step<Stored, Real>(bands, n, lock_step)))
        << "order " << n << ", " << sweeps << " sweeps, " << blocks << " blocks";
  }
};

TEST_P(SharedChase, OneBlockGivesTheBitsOfLockStep) {
  for (const std::int64_t n : {1, 2, 3, 32, 33, 34, 65, 150}) {
    if (GetParam() != 0 && n != 2 && n != 65) {
      continue;
    }
    expect_the_same_bits<float, float>(n, 14, 1);
    expect_the_same_bits<double, double>(n, 6, 1);
  }
  expect_the_same_bits<double, double>(70, 2, 1);
  expect_the_same_bits<double, double>(70, 2, 3);
  for (const int sweeps : {4, 7, 9, 12}) {
    expect_the_same_bits<float, float>(120, sweeps, 1);
  }
  expect_the_same_bits<float, double>(130, 4, 1);
  expect_the_same_bits<float, float>(70, 7, 1, 3);
}

TEST_P(SharedChase, SeveralBlocksGiveTheBitsOfLockStep) {
  // The emulated device has four multiprocessors.
  for (const std::int64_t n : {1, 33, 66, 150}) {
    if (GetParam() != 0 && n != 66) {
      continue;
    }
    expect_the_same_bits<float, float>(n, 4, 3);
    expect_the_same_bits<double, double>(n, 4, 2);
  }
  expect_the_same_bits<float, float>(200, 7, 4);
  expect_the_same_bits<float, float>(100, 4, 2, 4);
  expect_the_same_bits<double, double>(130, 5, 4);
  expect_the_same_bits<float, double>(100, 6, 2, 2);
}

TEST_P(SharedChase, ABrokenMatrixStaysAloneWithIt) {
  constexpr std::int64_t kN = 90;
  std::vector<std::vector<double>> bands = {band_of_noise(kN, 1), band_of_noise(kN, 2)};
  bands[0][40] = std::numeric_limits<double>::quiet_NaN();
  const ChasePlan plan = chase_plan_of(kN, 2, sizeof(float), kHopper, 4, 2);
  const std::vector<double> got = shared<float, float>(bands, kN, plan);
  const std::vector<double> alone =
      in_lock_step<float, float>({bands[1]}, kN, chase_shape(kHopper.shared_bytes, sizeof(float)));
  EXPECT_TRUE(std::equal(got.begin() + kN, got.begin() + 2 * kN, alone.begin()));
  EXPECT_TRUE(std::equal(got.begin() + 3 * kN, got.end(), alone.begin() + kN));
  EXPECT_TRUE(std::any_of(got.begin(), got.begin() + kN, [](double x) { return std::isnan(x); }));
}

INSTANTIATE_THREAD_ORDERS(SharedChase);

/// Two blocks of the same memory as one must be there together.
void expect_sound(const ChasePlan& plan, std::int64_t batch, const ChaseDevice& device) {
  EXPECT_LE(plan.shape.shared_bytes, device.shared_bytes);
  EXPECT_GE(plan.blocks, 1);
  if (plan.blocks > 1) {
    EXPECT_LE(batch * plan.blocks, device.multiprocessors) << "a block more waits for ever";
  }
}

TEST(ChasePlan, FollowsFromOrderBatchAndDevice) {
  for (const ChaseDevice& device : {kHopper, kAmpere, kAda}) {
    for (const std::size_t bytes : {sizeof(float), sizeof(double)}) {
      for (const std::int64_t n : {1, 40, 512, 1024, 2048, 4096}) {
        double before = 0.0;
        for (const std::int64_t batch : {1, 2, 8, 30, 66, 96, 132, 384, 1000}) {
          const ChasePlan plan = chase_plan(n, batch, bytes, bytes, device);
          expect_sound(plan, batch, device);
          EXPECT_GE(plan.cycles, before) << "a larger batch takes longer";
          before = plan.cycles;
        }
      }
    }
  }
}

TEST(ChasePlan, GivesAMatrixAloneManyBlocksAndAFullBatchOne) {
  const ChasePlan alone = chase_plan(2048, 1, sizeof(float), sizeof(float), kHopper);
  EXPECT_GE(alone.blocks, 4);
  const ChasePlan full = chase_plan(2048, 132, sizeof(float), sizeof(float), kHopper);
  EXPECT_EQ(full.blocks, 1);
  EXPECT_EQ(full.shape.sweeps, 14);
  EXPECT_LT(alone.cycles, full.cycles / 2.0);
  // Twice as many matrices take less than twice as long where several share a multiprocessor.
  const ChasePlan small = chase_plan(512, 132, sizeof(float), sizeof(float), kHopper);
  const ChasePlan smaller = chase_plan(512, 264, sizeof(float), sizeof(float), kHopper);
  EXPECT_LT(smaller.cycles, 1.9 * small.cycles);
  EXPECT_EQ(
      chase_plan(2048, 1, sizeof(float), sizeof(float), {.shared_bytes = kHopper.shared_bytes})
          .blocks,
      1)
      << "nothing is known of the device";
}

TEST(ChasePlan, RoundsTheSameForEveryBatch) {
  const auto sweeps_of = [](std::int64_t n, std::int64_t batch) {
    return chase_plan(n, batch, sizeof(float), sizeof(double), kHopper).shape.sweeps;
  };
  for (const std::int64_t batch : {1, 30, 132, 1000}) {
    EXPECT_EQ(sweeps_of(2048, batch), 6);
    EXPECT_EQ(sweeps_of(512, batch), 6);
  }
}

TEST(ChasePlan, RefusesWhatDoesNotFit) {
  EXPECT_THROW(
      (void)chase_plan(100, 1, sizeof(double), sizeof(double), {.shared_bytes = 48U << 10U}),
      UsageError);
  EXPECT_THROW((void)chase_plan_of(100, 1, sizeof(float), kHopper, 15, 1), UsageError);
  EXPECT_THROW((void)chase_plan_of(100, 1, sizeof(double), kHopper, 7, 1), UsageError);
  EXPECT_THROW((void)chase_plan_of(100, 100, sizeof(float), kHopper, 7, 3), UsageError);
  EXPECT_THROW((void)chase_plan_of(100, 1, sizeof(double), kAda, 4, 1), UsageError);
  EXPECT_EQ(chase_plan(2048, 100, sizeof(double), sizeof(double), kAda).shape.sweeps, 2);
}

}  // namespace
}  // namespace vindex::test::shared_chase_test
