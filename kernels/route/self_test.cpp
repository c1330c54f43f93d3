#include "route/self_test.hpp"

#include "device/symmetric_eigen.hpp"
#include "route/host_reference.hpp"
#include "route/self_test_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace vindex::kernels {

namespace {

/// Order of the symmetric matrices: several blocks and a rest.
constexpr std::int64_t kOrder = 97;
constexpr std::int64_t kBatch = 2;

/// Errors relative to the largest eigenvalue or diagonal element. float32 stages are allowed some
/// ten times what they show on sound devices, float64 ones a hundred times.
constexpr double kGramTolerance = 1e-6;
constexpr double kTolerance32 = 5e-6;
constexpr double kTolerance64 = 1e-12;

/// Worst error and the bound it is held against; several make a verdict.
class Verdict {
 public:
  void compare(std::span<const double> got, std::span<const double> wanted, double scale,
               double tolerance) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(got[i] - wanted[i]) / scale;
      if (!(error <= tolerance)) {  // also where it is not a number
        passed_ = false;
      }
      if (!(error / tolerance <= worst_ / allowed_)) {
        worst_ = error;
        allowed_ = tolerance;
      }
    }
  }
  void require(bool holds, const char* what) {
    if (!holds) {
      passed_ = false;
      broken_ += std::string("; ") + what;
    }
  }
  bool passed() const { return passed_; }
  std::string detail() const {
    char text[96];
    std::snprintf(text, sizeof text, "error %.2g of %.2g allowed", worst_, allowed_);
    return text + broken_;
  }

 private:
  bool passed_ = true;
  double worst_ = 0.0;
  double allowed_ = 1.0;
  std::string broken_;
};

class Bench {
 public:
  Bench(SolverLane& lane, const KernelTable& kernels, const DeviceTraits& device)
      : lane_(lane), kernels_(kernels), device_(device) {}

  SelfTest judge(const KernelTrial& trial) {
    const bool is_fast = trial.variant == Variant::kFast;
    const BandRoute route = is_fast ? BandRoute::kTensor : BandRoute::kPlain;
    const ProductKernel product = is_fast ? ProductKernel::kWarpgroup : ProductKernel::kWarp;
    Verdict verdict;
    try {
      switch (trial.kernel) {
        case KernelUnderTest::kGramBlockScaled:
          gram(decode::fp8_block_encoding(128, 128), product, verdict);
          break;
        case KernelUnderTest::kGramHalf:
          gram(decode::plain_encoding(decode::ElementType::kF16), product, verdict);
          gram(decode::packed_int_encoding(4, 32), product, verdict);
          break;
        case KernelUnderTest::kGramBfloat16:
          gram(decode::plain_encoding(decode::ElementType::kBF16), product, verdict);
          break;
        case KernelUnderTest::kGramHalfPair:
          gram(decode::plain_encoding(decode::ElementType::kF32), product, verdict);
          break;
        case KernelUnderTest::kBand32:
          band<float>(route, kernels_.band32, kTolerance32, verdict);
          break;
        case KernelUnderTest::kBand64:
          band<double>(route, kernels_.band64, kTolerance64, verdict);
          break;
        case KernelUnderTest::kChase:
          chase<double, double>(kernels_.chase64, kTolerance64, verdict);
          chase<float, double>(kernels_.chase32_in_64, kTolerance32, verdict);
          chase<float, float>(kernels_.chase32, kTolerance32, verdict);
          break;
        case KernelUnderTest::kValues:
          values(verdict);
          break;
        case KernelUnderTest::kLibraryEigen:
          library(!is_fast, verdict);
          break;
      }
    } catch (const DeviceError& error) {
      return {trial, false, error.what()};
    }
    return {trial, verdict.passed(), verdict.detail()};
  }

 private:
  cudaStream_t stream() { return lane_.stream.get(); }

  template <typename T>
  std::vector<T> fetched(const T* data, std::int64_t count) {
    std::vector<T> out(static_cast<std::size_t>(count));
    check(cudaMemcpyAsync(out.data(), data, out.size() * sizeof(T), cudaMemcpyDeviceToHost,
                          stream()));
    check(cudaStreamSynchronize(stream()));
    return out;
  }
  template <typename T>
  void send(const std::vector<T>& values, T* to) {
    check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice,
                          stream()));
    check(cudaStreamSynchronize(stream()));
  }

  void compare_values(const std::vector<double>& got, const std::vector<double>& wanted,
                      double tolerance, Verdict& verdict) {
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const auto first = static_cast<std::size_t>(b * kOrder);
      const std::span<const double> one(wanted.data() + first, kOrder);
      const double scale = std::max(std::abs(one.front()), std::abs(one.back()));
      verdict.compare({got.data() + first, kOrder}, one, scale, tolerance);
    }
  }

  void gram(const decode::Encoding& encoding, ProductKernel product_kernel, Verdict& verdict) {
    for (const bool tall : {true, false}) {
      const EncodedSample sample(encoding, tall ? 320 : 160, tall ? 160 : 320);
      const GramShape shape = {.rows = sample.rows(), .cols = sample.cols()};
      const std::int64_t p = shape.short_side();
      DeviceBuffer memory("self-test");
      auto* codes = static_cast<std::uint8_t*>(memory.reserve(sample.bytes()));
      const decode::DecodeView view = sample.send(codes, stream());
      const OperandPlan plan = choose_operands(encoding, view, false);
      DeviceBuffer more("self-test");
      const std::size_t workspace_bytes = gram_workspace_bytes(shape, plan, 1);
      Carver counted(nullptr, 0);
      const auto carve = [&](Carver& from) {
        struct Arrays {
          float* gram;
          GramFacts* facts;
          void* workspace;
        };
        return Arrays{from.take<float>(shape.gram_elements()), from.take<GramFacts>(1),
                      from.take<unsigned char>(static_cast<std::int64_t>(workspace_bytes))};
      };
      (void)carve(counted);
      Carver real(more.reserve(counted.used()), counted.used());
      const auto arrays = carve(real);
      kernels_.gram(
          encoding, plan, {.views = {&view, 1}, .sign_flip_keys = {}, .transposed = false},
          arrays.workspace, workspace_bytes, product_kernel, arrays.gram, arrays.facts, stream());
      const auto got = fetched(arrays.gram, shape.gram_elements());
      const auto facts = fetched(arrays.facts, 1).front();
      const auto wanted = reference_gram(sample.weights(), shape.rows, shape.cols, tall);
      compare_grams(got, shape.order(), facts.exponent, wanted, p, verdict);
      const decode::Moments moments = moments_of(facts);
      verdict.require(moments.count == shape.rows * shape.cols && moments.nonfinite == 0,
                      "weights miscounted");
      verdict.require(
          std::abs(moments.sum_squares - sample.sum_squares()) <= 1e-12 * sample.sum_squares(),
          "wrong sum of squares");
    }
  }

  static void compare_grams(const std::vector<float>& got, std::int64_t order, int exponent,
                            const std::vector<double>& wanted, std::int64_t p, Verdict& verdict) {
    std::vector<double> lower;
    std::vector<double> lower_wanted;
    double largest = 0.0;
    for (std::int64_t col = 0; col < p; ++col) {
      for (std::int64_t row = col; row < p; ++row) {
        // Both triangles are promised.
        const float one = got[static_cast<std::size_t>(row * order + col)];
        const float other = got[static_cast<std::size_t>(col * order + row)];
        verdict.require(one == other, "not symmetric");
        lower.push_back(std::ldexp(static_cast<double>(one), 2 * exponent));
        lower_wanted.push_back(wanted[static_cast<std::size_t>(col * p + row)]);
        largest = std::max(largest, std::abs(lower_wanted.back()));
        if (one != other) {
          return;
        }
      }
    }
    verdict.compare(lower, lower_wanted, largest, kGramTolerance);
  }

  template <typename Real, typename Reduce>
  void band(BandRoute route, Reduce reduce, double tolerance, Verdict& verdict) {
    const std::int64_t order = band_order(kOrder);
    const BandPlan plan = plan_band_reduction<Real>(order, route, device_.shared_bytes);
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
    Carver counted(nullptr, 0);
    const auto carve = [&](Carver& from) {
      return BandBatch<Real, Real>{
          from.take<Real>(kBatch * order * order), kBatch, from.take<Real>(band_count),
          from.take<std::int32_t>(kBatch),
          from.take<unsigned char>(kBatch *
                                   static_cast<std::int64_t>(plan.workspace_bytes_per_matrix))};
    };
    (void)carve(counted);
    Carver real(memory.reserve(counted.used()), counted.used());
    const BandBatch<Real, Real> batch = carve(real);
    send(padded, batch.matrices);
    reduce(plan, batch, lane_.blas.get(), stream());
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
    Carver counted(nullptr, 0);
    struct Arrays {
      Stored* bands;
      double* diagonal;
      double* off_diagonal;
    };
    const auto carve = [&](Carver& from) {
      return Arrays{from.take<Stored>(static_cast<std::int64_t>(bands.size())),
                    from.take<double>(kBatch * kOrder), from.take<double>(kBatch * kOrder)};
    };
    (void)carve(counted);
    Carver real(memory.reserve(counted.used()), counted.used());
    const Arrays arrays = carve(real);
    send(bands, arrays.bands);
    chase_bands(arrays.bands, kOrder, kBatch, chase_shape(device_.shared_bytes, sizeof(Real)),
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
    kernels_.values(device_diagonal, device_off, kOrder, kBatch, ValueOrder::kAscending,
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
      symmetric_eigen(lane_.eigen_library(one_by_one), matrices, kOrder, kBatch, vectors, values,
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

  SolverLane& lane_;
  const KernelTable& kernels_;
  const DeviceTraits& device_;
};

}  // namespace

std::optional<SelfTest> run_self_tests(SolverLane& lane, const KernelTable& kernels,
                                       const DeviceTraits& device,
                                       std::span<const KernelTrial> wanted,
                                       const std::function<void(const SelfTest&)>& tell) {
  Bench bench(lane, kernels, device);
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
