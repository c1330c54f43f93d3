#include "self_test.hpp"

#include "host_reference.hpp"
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include "kernels/device/symmetric_eigen.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numbers>

namespace vindex::kernels {

namespace {

/// Order of the symmetric matrices: several blocks and a rest.
constexpr std::int64_t kOrder = 97;
constexpr std::int64_t kBatch = 2;

/// Errors relative to the largest eigenvalue or diagonal element. float32 stages are allowed some
/// ten times what they show on sound devices, float64 ones a hundred times.
constexpr double kTolerance32 = 5e-6;

class Bench : private TestBench {
 public:
  explicit Bench(const TestBench& bench) : TestBench(bench) {}

  SelfTest judge(const KernelTrial& trial) {
    const bool is_fast = trial.variant == Variant::kFast;
    const BandRoute route = is_fast ? BandRoute::kTensor : BandRoute::kPlain;
    const ProductKernel product = is_fast ? ProductKernel::kWarpgroup : ProductKernel::kWarp;
    Verdict verdict;
    try {
      switch (trial.kernel) {
        case KernelUnderTest::kGramBlockScaled:
          try_gram(*this, decode::fp8_block_encoding(128, 128), product, verdict);
          break;
        case KernelUnderTest::kGramHalf:
          try_gram(*this, decode::plain_encoding(decode::ElementType::kF16), product, verdict);
          try_gram(*this, decode::packed_int_encoding(4, 32), product, verdict);
          break;
        case KernelUnderTest::kGramBfloat16:
          try_gram(*this, decode::plain_encoding(decode::ElementType::kBF16), product, verdict);
          break;
        case KernelUnderTest::kGramHalfPair:
          try_gram(*this, decode::plain_encoding(decode::ElementType::kF32), product, verdict);
          break;
        case KernelUnderTest::kBand32:
          band<float>(route, kernels.band32, kTolerance32, verdict);
          break;
        case KernelUnderTest::kBand64:
          band<double>(route, kernels.band64, kTolerance64, verdict);
          break;
        case KernelUnderTest::kChase:
          chase<double, double>(kernels.chase64, kTolerance64, verdict);
          chase<float, double>(kernels.chase32_in_64, kTolerance32, verdict);
          chase<float, float>(kernels.chase32, kTolerance32, verdict);
          break;
        case KernelUnderTest::kValues:
          values(verdict);
          break;
        case KernelUnderTest::kLibraryEigen:
          library(!is_fast, verdict);
          break;
        case KernelUnderTest::kSlicedGram:
          try_sliced_gram(*this, verdict);
          break;
        case KernelUnderTest::kTail:
          try_tail(*this, route, verdict);
          break;
        case KernelUnderTest::kDeferredBand:
          try_deferred_band(*this, verdict);
          break;
        case KernelUnderTest::kChase32:
        case KernelUnderTest::kSharedChase:
        case KernelUnderTest::kValues32:
        case KernelUnderTest::kNativeOperands:
        case KernelUnderTest::kCodeSlices:
        case KernelUnderTest::kWideBackTransform:
          verdict.require(false, "there is no trial of it");
          break;
      }
    } catch (const OutOfMemory&) {
      throw;  // says nothing about a kernel
    } catch (const std::exception& error) {
      return {trial, false, error.what()};
    }
    return {trial, verdict.passed(), verdict.detail()};
  }

 private:
  void compare_values(const std::vector<double>& got, const std::vector<double>& wanted,
                      double tolerance, Verdict& verdict) {
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const auto first = static_cast<std::size_t>(b * kOrder);
      const std::span<const double> one(wanted.data() + first, kOrder);
      const double scale = std::max(std::abs(one.front()), std::abs(one.back()));
      verdict.compare({got.data() + first, kOrder}, one, scale, tolerance);
    }
  }

  template <typename Real, typename Reduce>
  void band(BandRoute route, Reduce reduce, double tolerance, Verdict& verdict) {
    const std::int64_t order = band_order(kOrder);
    const BandPlan plan = plan_band_reduction<Real>(order, route, device.shared_bytes);
    const std::vector<double> dense = dense_samples(kOrder, kBatch);
    std::vector<Real> padded(static_cast<std::size_t>(kBatch * order * order), Real{0});
    std::vector<double> rounded(dense.size());
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (std::int64_t i = 0; i < kOrder * kOrder; ++i) {
        const auto at = static_cast<std::size_t>(b * kOrder * kOrder + i);
        const auto value = static_cast<Real>(dense[at]);
        rounded[at] = static_cast<double>(value);
        padded[static_cast<std::size_t>((b * order + i / kOrder) * order + i % kOrder)] = value;
      }
    }
    DeviceBuffer memory("self-test");
    const auto band_count = kBatch * band_elements(order);
    Arena counted(nullptr, 0);
    const auto allocate = [&](Arena& from) {
      return BandBatch<Real, Real>{
          from.take<Real>(kBatch * order * order), kBatch, from.take<Real>(band_count),
          from.take<std::int32_t>(kBatch),
          from.take<unsigned char>(kBatch *
                                   static_cast<std::int64_t>(plan.workspace_bytes_per_matrix))};
    };
    (void)allocate(counted);
    Arena real(memory.reserve(counted.used()), counted.used());
    const BandBatch<Real, Real> batch = allocate(real);
    send(padded, batch.matrices);
    reduce(plan, batch, lane.blas.get(), stream());
    const std::vector<Real> bands = fetched(batch.band, band_count);
    const std::vector<std::int32_t> exponents = fetched(batch.exponents, kBatch);
    std::vector<double> as_dense = dense_of_bands(bands, kOrder, kBatch, kBand);
    for (std::int64_t i = 0; i < kBatch * kOrder * kOrder; ++i) {
      double& value = as_dense[static_cast<std::size_t>(i)];
      value = std::ldexp(value, exponents[static_cast<std::size_t>(i / (kOrder * kOrder))]);
    }
    compare_values(reference_values(as_dense, kOrder, kBatch),
                   reference_values(rounded, kOrder, kBatch), tolerance, verdict);
  }

  template <typename Stored, typename Real, typename Chase>
  void chase(Chase chase_bands, double tolerance, Verdict& verdict) {
    const std::vector<Stored> bands = band_samples<Stored>(kOrder, kBatch);
    DeviceBuffer memory("self-test");
    Arena counted(nullptr, 0);
    struct Arrays {
      Stored* bands;
      double* diagonal;
      double* off_diagonal;
    };
    const auto allocate = [&](Arena& from) {
      return Arrays{from.take<Stored>(static_cast<std::int64_t>(bands.size())),
                    from.take<double>(kBatch * kOrder), from.take<double>(kBatch * kOrder)};
    };
    (void)allocate(counted);
    Arena real(memory.reserve(counted.used()), counted.used());
    const Arrays arrays = allocate(real);
    send(bands, arrays.bands);
    chase_bands(arrays.bands, kOrder, kBatch, chase_shape(device.shared_bytes, sizeof(Real)),
                arrays.diagonal, arrays.off_diagonal, stream());
    const std::vector<double> diagonal = fetched(arrays.diagonal, kBatch * kOrder);
    const std::vector<double> off_diagonal = fetched(arrays.off_diagonal, kBatch * kOrder);
    compare_values(tridiagonal_values_of(diagonal, off_diagonal),
                   reference_values(dense_of_bands(bands, kOrder, kBatch, kBand), kOrder, kBatch),
                   tolerance, verdict);
  }

  /// The second difference, whose eigenvalues are 2 - 2 cos(pi k / (n + 1)), and a matrix of the
  /// samples'.
  void values(Verdict& verdict) {
    std::vector<double> diagonal(kBatch * kOrder, 2.0);
    std::vector<double> off_diagonal(kBatch * kOrder, -1.0);
    fill_random(std::span(diagonal).subspan(kOrder), 11);
    fill_random(std::span(off_diagonal).subspan(kOrder), 12);
    DeviceBuffer memory("self-test");
    constexpr auto kCount = static_cast<std::size_t>(kBatch * kOrder);
    auto* device_diagonal = memory.reserve_array<double>(3 * kCount + kBatch);
    double* device_off = device_diagonal + kCount;
    double* device_values = device_off + kCount;
    auto* failed = reinterpret_cast<int*>(device_values + kCount);
    send(diagonal, device_diagonal);
    send(off_diagonal, device_off);
    kernels.values(device_diagonal, device_off, kOrder, kBatch, ValueOrder::kAscending,
                   device_values, failed, stream(), kTridiagonalRowsInShared);
    const std::vector<double> got = fetched(device_values, kBatch * kOrder);
    std::vector<double> wanted = tridiagonal_values_of(diagonal, off_diagonal);
    for (std::int64_t k = 0; k < kOrder; ++k) {
      wanted[static_cast<std::size_t>(k)] =
          2.0 - 2.0 * std::cos(std::numbers::pi * static_cast<double>(k + 1) /
                               static_cast<double>(kOrder + 1));
    }
    compare_values(got, wanted, kTolerance64, verdict);
    const std::vector<int> status = fetched(failed, kBatch);
    verdict.require(status == std::vector<int>(kBatch, 0), "said to have failed");
  }

  /// Both ways in which the library is asked: values alone, and values with vectors.
  void library(bool one_by_one, Verdict& verdict) {
    const std::vector<double> dense = dense_samples(kOrder, kBatch);
    const std::vector<double> wanted = reference_values(dense, kOrder, kBatch);
    DeviceBuffer memory("self-test");
    constexpr auto kCount = static_cast<std::size_t>(kBatch * kOrder);
    auto* matrices = memory.reserve_array<double>(dense.size() + kCount + kBatch);
    double* values = matrices + dense.size();
    auto* failed = reinterpret_cast<int*>(values + kCount);
    for (const bool vectors : {false, true}) {
      send(dense, matrices);
      symmetric_eigen(lane.eigen_library(one_by_one), matrices, kOrder, kBatch, vectors, values,
                      failed);
      const std::vector<double> got = fetched(values, kBatch * kOrder);
      compare_values(got, wanted, kTolerance64, verdict);
      verdict.require(fetched(failed, kBatch) == std::vector<int>(kBatch, 0),
                      "said to have failed");
      if (vectors) {
        compare_vectors(dense, got, fetched(matrices, static_cast<std::int64_t>(dense.size())),
                        verdict);
      }
    }
  }

  /// A v against value v, by column.
  static void compare_vectors(const std::vector<double>& dense, const std::vector<double>& values,
                              const std::vector<double>& vectors, Verdict& verdict) {
    std::vector<double> image(kOrder);
    std::vector<double> wanted(kOrder);
    for (std::int64_t column = 0; column < kBatch * kOrder; ++column) {
      const std::int64_t matrix = column / kOrder;
      const double* const vector = vectors.data() + column * kOrder;
      double norm = 0.0;
      for (std::int64_t i = 0; i < kOrder; ++i) {
        const double* const row = dense.data() + (matrix * kOrder + i) * kOrder;
        double sum = 0.0;
        for (std::int64_t j = 0; j < kOrder; ++j) {
          sum += row[j] * vector[j];
        }
        image[static_cast<std::size_t>(i)] = sum;
        wanted[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(column)] * vector[i];
        norm += vector[i] * vector[i];
      }
      const double scale = values[static_cast<std::size_t>((matrix + 1) * kOrder - 1)];
      verdict.compare(image, wanted, scale, kTolerance64);
      verdict.require(std::abs(norm - 1.0) <= kTolerance64, "a vector is not of length 1");
    }
  }

  /// Of both matrices of the batch, ascending.
  static std::vector<double> tridiagonal_values_of(const std::vector<double>& diagonal,
                                                   const std::vector<double>& off_diagonal) {
    std::vector<double> values;
    for (std::size_t first = 0; first < diagonal.size(); first += kOrder) {
      const auto own = reference_tridiagonal_values({diagonal.data() + first, kOrder},
                                                    {off_diagonal.data() + first, kOrder});
      values.insert(values.end(), own.begin(), own.end());
    }
    return values;
  }
};

}  // namespace

std::optional<SelfTest> run_self_tests(SolverLane& lane, const KernelTable& kernels,
                                       const DeviceTraits& device,
                                       std::span<const KernelTrial> wanted,
                                       const std::function<void(const SelfTest&)>& tell) {
  Bench bench(TestBench{lane, kernels, device});
  for (const KernelTrial& trial : wanted) {
    const SelfTest verdict = bench.judge(trial);
    tell(verdict);
    // After a fault of a kernel nothing runs any more on this device in this process, the library's
    // route neither.
    if (!verdict.passed && cudaDeviceSynchronize() != cudaSuccess) {
      return verdict;
    }
  }
  return std::nullopt;
}

}  // namespace vindex::kernels
