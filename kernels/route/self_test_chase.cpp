// The trial of the chase whose sweeps and blocks wait for one another by flags. A flag that comes
// too early shows as other bits, one that does not come as an error of the launch.
#include "host_reference.hpp"
#include "self_test.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include "kernels/band/chase/shared_chase_layout.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace vindex::kernels {

namespace {

constexpr std::int64_t kOrder = 97;  ///< several steps and a rest, groups for every block
constexpr std::int64_t kBatch = 2;

/// Of the largest eigenvalue: some four times what the emulation shows of the small bands; of the
/// long ones what is allowed of the chase in lock step, whose bits are to come.
struct Tolerance {
  double small_order = 0.0;
  double long_order = 0.0;
};
constexpr Tolerance kTolerance32 = {5e-7, 2e-6};
constexpr Tolerance kToleranceMixed = {6e-8, 5e-7};
constexpr Tolerance kToleranceDouble = {2e-15, kTolerance64};

template <typename Stored, typename Real, typename Chase>
class SharedChaseTrial {
 public:
  SharedChaseTrial(TestBench& bench, Chase chase)
      : bench_(bench),
        chase_(chase),
        device_({.shared_bytes = bench.device.shared_bytes,
                 .multiprocessors = bench.device.multiprocessors}) {}

  /// Two small matrices, by what a full batch has and by few sweeps of several blocks; where
  /// elements are rounded between groups, of as many sweeps.
  void run_small(double tolerance, Verdict& verdict) {
    const ChasePlan full = full_plan(kOrder);
    const int few = sizeof(Stored) == sizeof(Real) ? std::min(kFewSweeps, full.shape.sweeps)
                                                   : full.shape.sweeps;
    const int blocks = std::clamp(device_.multiprocessors / static_cast<int>(kBatch), 1, 3);
    const std::vector<Stored> bands = band_samples<Stored>(kOrder, kBatch);
    judge(bands, kOrder, chase_plan_of(kOrder, kBatch, sizeof(Real), device_, full.shape.sweeps, 1),
          chase_plan_of(kOrder, kBatch, sizeof(Real), device_, few, blocks),
          reference_values(dense_of_bands(bands, kOrder, kBatch, kBand), kOrder, kBatch), tolerance,
          verdict);
  }

  /// A matrix that goes round the ring many times, by the plans of measurements: that of a full
  /// batch, and that of a matrix alone, which takes as much of the device as any.
  void run_long(double tolerance, Verdict& verdict) {
    const std::int64_t order = bench_.trial_order;
    const KnownMatrix known = known_band(order);
    judge(band_of_dense<Stored>(known.elements, order), order, full_plan(order),
          chase_plan(order, 1, sizeof(Stored), sizeof(Real), device_), known.values, tolerance,
          verdict);
  }

 private:
  static constexpr std::int64_t kMany = 1 << 10;
  static constexpr int kFewSweeps = 4;

  ChasePlan full_plan(std::int64_t n) const {
    return chase_plan(n, kMany, sizeof(Stored), sizeof(Real), device_);
  }

  void judge(const std::vector<Stored>& bands, std::int64_t n, const ChasePlan& one,
             const ChasePlan& several, const std::vector<double>& wanted, double tolerance,
             Verdict& verdict) {
    const std::int64_t batch = std::ssize(wanted) / n;
    const std::vector<double> by_one = tridiagonal(bands, n, batch, one);
    const std::vector<double> by_several = tridiagonal(bands, n, batch, several);
    verdict.require(by_one == by_several, "several blocks give other bits than one");
    const auto order = static_cast<std::size_t>(n);
    for (std::int64_t b = 0; b < batch; ++b) {
      const double* const diagonal = by_several.data() + b * n;
      const std::vector<double> got =
          reference_tridiagonal_values({diagonal, order}, {diagonal + batch * n, order});
      const std::span<const double> own(wanted.data() + b * n, order);
      verdict.compare(got, own, std::max(std::abs(own.front()), std::abs(own.back())), tolerance);
    }
  }

  /// Diagonals, then off-diagonals.
  std::vector<double> tridiagonal(const std::vector<Stored>& bands, std::int64_t n,
                                  std::int64_t batch, const ChasePlan& plan) {
    DeviceBuffer memory("self-test");
    struct Arrays {
      Stored* bands;
      double* diagonal;
      int* flags;
    };
    const auto allocate = [&](Arena& from) {
      return Arrays{from.take<Stored>(std::ssize(bands)), from.take<double>(2 * batch * n),
                    from.take<int>(chase_flags(batch, plan.blocks))};
    };
    Arena counted(nullptr, 0);
    (void)allocate(counted);
    Arena real(memory.reserve(counted.used()), counted.used());
    const Arrays arrays = allocate(real);
    bench_.send(bands, arrays.bands);
    chase_(arrays.bands, n, batch, plan, arrays.flags, arrays.diagonal, arrays.diagonal + batch * n,
           bench_.stream(), static_cast<long long>(kTrialWaitCycles));
    return bench_.fetched(arrays.diagonal, 2 * batch * n);
  }

  TestBench& bench_;
  Chase chase_;
  ChaseDevice device_;
};

template <typename Stored, typename Real, typename Chase>
void try_precision(TestBench& bench, Chase chase, const Tolerance& tolerance, Verdict& verdict) {
  // A device that has no room for two sweeps has none for chase_bands() either.
  constexpr int kLeast = chase_layout::kMinSweeps;
  if (chase_layout::shared_bytes_for(kLeast, chase_layout::ring_blocks_for(kLeast), sizeof(Real)) <=
      bench.device.shared_bytes) {
    SharedChaseTrial<Stored, Real, Chase> trial(bench, chase);
    trial.run_small(tolerance.small_order, verdict);
    trial.run_long(tolerance.long_order, verdict);
  }
}

}  // namespace

void try_shared_chase(TestBench& bench, Verdict& verdict) {
  try_precision<float, float>(bench, bench.kernels.shared_chase32, kTolerance32, verdict);
  try_precision<float, double>(bench, bench.kernels.shared_chase32_in_64, kToleranceMixed, verdict);
  try_precision<double, double>(bench, bench.kernels.shared_chase64, kToleranceDouble, verdict);
}

}  // namespace vindex::kernels
