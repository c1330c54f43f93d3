// A fault in any stage that a device runs refutes the error that the route states: QR takes over,
// or the report says so (statistics/judgement/spectrum_checks.hpp). Kernels that go wrong only once
// their self-tests have passed, as a device's may.
#include "decode/encoding/encoded_matrix.hpp"
#include "kernels/cuda_backend.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/support/known_spectra.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace vindex::test::device_planted_faults_test {
namespace {

using namespace kernels;

enum class Plant {
  kNothing,
  kBandReflector,   ///< an element of the band by a thousandth too large
  kBandRotation,    ///< an element of the band forgotten
  kChaseReflector,  ///< the same of the tridiagonal form
  kChaseRotation,
  kValue,  ///< a value that is another one's
};

Plant planted = Plant::kNothing;
int planted_count = 0;

bool is_planted(Plant plant) {
  planted_count += planted == plant ? 1 : 0;
  return planted == plant;
}

template <typename Real>
void scale_on_device(Real* element, double factor, cudaStream_t stream) {
  check(cudaStreamSynchronize(stream));
  Real value{};
  check(cudaMemcpy(&value, element, sizeof value, cudaMemcpyDeviceToHost));
  value = static_cast<Real>(static_cast<double>(value) * factor);
  check(cudaMemcpy(element, &value, sizeof value, cudaMemcpyHostToDevice));
}

template <typename Real>
void wrong_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream) {
  reduce_to_band(plan, batch, stream);
  if (is_planted(Plant::kBandReflector)) {
    scale_on_device(batch.band + band_index(4, 4), 1.001, stream);
  } else if (is_planted(Plant::kBandRotation)) {
    check(cudaMemsetAsync(batch.band + band_index(kBand + 4, 4), 0, sizeof(Real), stream));
  }
}

template <typename BandReal, typename Real>
void wrong_chase(BandReal* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                 double* diagonal, double* off_diagonal, cudaStream_t stream) {
  chase_bands<BandReal, Real>(bands, n, batch, shape, diagonal, off_diagonal, stream);
  if (is_planted(Plant::kChaseReflector)) {
    scale_on_device(diagonal + 5, 1.001, stream);
  } else if (is_planted(Plant::kChaseRotation)) {
    check(cudaMemsetAsync(off_diagonal + 5, 0, sizeof(double), stream));
  }
}

template <typename BandReal, typename Real>
void wrong_shared_chase(BandReal* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                        int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                        long long patience) {
  shared_chase<BandReal, Real>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                               patience);
  if (is_planted(Plant::kChaseReflector)) {
    scale_on_device(diagonal + 5, 1.001, stream);
  } else if (is_planted(Plant::kChaseRotation)) {
    check(cudaMemsetAsync(off_diagonal + 5, 0, sizeof(double), stream));
  }
}

template <auto kFind>
void wrong_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                  std::int64_t batch, ValueOrder order, double* values, int* failed,
                  cudaStream_t stream, std::int64_t rows) {
  kFind(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
  if (is_planted(Plant::kValue)) {
    check(
        cudaMemcpyAsync(values + 5, values + 6, sizeof(double), cudaMemcpyDeviceToDevice, stream));
  }
}

/// One for all cases: its self-tests take seconds in the emulation.
CudaBackend& backend() {
  static const KernelTable kTable = [] {
    KernelTable table;
    table.band32 = wrong_band<float>;
    table.band64 = wrong_band<double>;
    table.chase32 = wrong_chase<float, float>;
    table.chase32_in_64 = wrong_chase<float, double>;
    table.chase64 = wrong_chase<double, double>;
    table.shared_chase32 = wrong_shared_chase<float, float>;
    table.shared_chase32_in_64 = wrong_shared_chase<float, double>;
    table.shared_chase64 = wrong_shared_chase<double, double>;
    table.values = wrong_values<&tridiagonal_values>;
    table.values32 = wrong_values<&tridiagonal_values32>;
    return table;
  }();
  static const std::unique_ptr<CudaBackend> kBackend = [] {
    auto made = std::make_unique<CudaBackend>(0, kTable, passed_trials());
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      MeasureOptions options;
      options.mode = mode;
      made->prepare(options);
    }
    return made;
  }();
  return *kBackend;
}

MatrixReport measured(const FloatMatrix& matrix, SpectrumMode mode, bool escalate) {
  const auto input =
      make_memory_input(decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols));
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  MeasureOptions options;
  options.mode = mode;
  options.escalate = escalate;
  backend().measure(batch, options, 0, out);
  return out[0];
}

double worst_error(const MatrixReport& report, const std::vector<double>& reference) {
  double worst = 0.0;
  for (std::size_t i = 0; i < report.sigma.size(); ++i) {
    worst = std::max(worst, std::abs(report.sigma[i] - reference[i]));
  }
  return worst;
}

TEST(DevicePlantedFaults, AreTakenOverOrReportedInEveryMode) {
  const FloatMatrix matrix = gaussian_matrix(60, 90, 3);
  const std::vector<double> reference = reference_singular_values(matrix);
  backend();
  for (const SpectrumMode mode :
       {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    for (const bool escalate : {true, false}) {
      for (const Plant plant : {Plant::kNothing, Plant::kBandReflector, Plant::kBandRotation,
                                Plant::kChaseReflector, Plant::kChaseRotation, Plant::kValue}) {
        SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)) + ", fault " +
                     std::to_string(static_cast<int>(plant)) + (escalate ? "" : ", kept"));
        planted = plant;
        planted_count = 0;
        const MatrixReport report = measured(matrix, mode, escalate);
        planted = Plant::kNothing;
        ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
        EXPECT_LE(worst_error(report, reference), report.sigma_error) << report.method;
        const bool is_said = report.reason.find("refutes the error") != std::string::npos;
        const bool is_taken_over = escalate || mode == SpectrumMode::kStrict;
        EXPECT_EQ(is_said, plant != Plant::kNothing && !is_taken_over) << report.reason;
        if (plant != Plant::kNothing) {
          ASSERT_GT(planted_count, 0) << report.method;
          EXPECT_EQ(report.method == "qr+bidiag64+cuda", is_taken_over) << report.method;
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::test::device_planted_faults_test
