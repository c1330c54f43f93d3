// The trial of the chase whose sweeps and blocks wait for one another by flags. A flag that comes
// too early shows as other bits, one that does not come as an error of the launch.
#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include "kernels/band/shared_chase_layout.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

constexpr std::int64_t kOrder = 97;  ///< several steps and a rest, groups for every block
constexpr std::int64_t kBatch = 2;
/// Some four times what the emulation shows, of the largest eigenvalue.
constexpr double kTolerance32 = 5e-7;
constexpr double kToleranceMixed = 6e-8;
constexpr double kToleranceDouble = 2e-15;

template <typename Stored, typename Real, typename Chase>
class SharedChaseTrial {
 public:
  SharedChaseTrial(TestBench& bench, Chase chase)
      : bench_(bench),
        chase_(chase),
        device_({.shared_bytes = bench.device.shared_bytes,
                 .multiprocessors = bench.device.multiprocessors}) {}

  void run(double tolerance, Verdict& verdict) {
    // What a full batch has, and what a small one has; where elements are rounded between groups,
    // with as many sweeps.
    const ChasePlan full = chase_plan(kOrder, kMany, sizeof(Stored), sizeof(Real), device_);
    const int few = sizeof(Stored) == sizeof(Real) ? std::min(kFewSweeps, full.shape.sweeps)
                                                   : full.shape.sweeps;
    const int blocks = std::clamp(device_.multiprocessors / static_cast<int>(kBatch), 1, 3);
    const std::vector<double> by_one =
        tridiagonal(chase_plan_of(kOrder, kBatch, sizeof(Real), device_, full.shape.sweeps, 1));
    const std::vector<double> by_several =
        tridiagonal(chase_plan_of(kOrder, kBatch, sizeof(Real), device_, few, blocks));
    verdict.require(by_one == by_several, "several blocks give other bits than one");
    const std::vector<double> wanted =
        reference_values(dense_of_bands(bands_, kOrder, kBatch, kBand), kOrder, kBatch);
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const double* const diagonal = by_several.data() + b * kOrder;
      const std::vector<double> got =
          reference_tridiagonal_values({diagonal, kOrder}, {diagonal + kBatch * kOrder, kOrder});
      const std::span<const double> own(wanted.data() + b * kOrder, kOrder);
      verdict.compare(got, own, std::max(std::abs(own.front()), std::abs(own.back())), tolerance);
    }
  }

 private:
  static constexpr std::int64_t kMany = 1 << 10;
  static constexpr int kFewSweeps = 4;

  /// Diagonals, then off-diagonals.
  std::vector<double> tridiagonal(const ChasePlan& plan) {
    DeviceBuffer memory("self-test");
    struct Arrays {
      Stored* bands;
      double* diagonal;
      int* flags;
    };
    const auto allocate = [&](Arena& from) {
      return Arrays{from.take<Stored>(static_cast<std::int64_t>(bands_.size())),
                    from.take<double>(2 * kBatch * kOrder),
                    from.take<int>(chase_flags(kBatch, plan.blocks))};
    };
    Arena counted(nullptr, 0);
    (void)allocate(counted);
    Arena real(memory.reserve(counted.used()), counted.used());
    const Arrays arrays = allocate(real);
    bench_.send(bands_, arrays.bands);
    chase_(arrays.bands, kOrder, kBatch, plan, arrays.flags, arrays.diagonal,
           arrays.diagonal + kBatch * kOrder, bench_.stream(), kChasePatience);
    return bench_.fetched(arrays.diagonal, 2 * kBatch * kOrder);
  }

  TestBench& bench_;
  Chase chase_;
  ChaseDevice device_;
  std::vector<Stored> bands_ = band_samples<Stored>(kOrder, kBatch);
};

template <typename Stored, typename Real, typename Chase>
void try_precision(TestBench& bench, Chase chase, double tolerance, Verdict& verdict) {
  // A device that has no room for two sweeps has none for chase_bands() either.
  constexpr int kLeast = chase_layout::kMinSweeps;
  if (chase_layout::shared_bytes_for(kLeast, chase_layout::ring_blocks_for(kLeast), sizeof(Real)) <=
      bench.device.shared_bytes) {
    SharedChaseTrial<Stored, Real, Chase>(bench, chase).run(tolerance, verdict);
  }
}

}  // namespace

void try_shared_chase(TestBench& bench, Verdict& verdict) {
  try_precision<float, float>(bench, bench.kernels.shared_chase32, kTolerance32, verdict);
  try_precision<float, double>(bench, bench.kernels.shared_chase32_in_64, kToleranceMixed, verdict);
  try_precision<double, double>(bench, bench.kernels.shared_chase64, kToleranceDouble, verdict);
}

}  // namespace vindex::kernels
