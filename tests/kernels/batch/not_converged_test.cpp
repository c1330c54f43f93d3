// What becomes of a matrix whose eigenvalues a device's solver cannot find, which no input brings
// about: a solver that begins to fail after its self-test.
#include "decode/encoding/encoded_matrix.hpp"
#include "kernels/cuda_backend.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <memory>
#include <vector>

namespace vindex::test::not_converged_test {
namespace {

using namespace kernels;

bool is_failing = false;

template <auto kFind>
void failing_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                    std::int64_t batch, ValueOrder order, double* values, int* failed,
                    cudaStream_t stream, std::int64_t rows) {
  kFind(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
  if (is_failing) {
    check(cudaMemsetAsync(failed, 1, static_cast<std::size_t>(batch) * sizeof(int), stream));
  }
}

class NotConverged : public ::testing::Test {
 protected:
  void SetUp() override {
    backend();  // its self-tests still pass
    is_failing = true;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = i % 7 == 0 ? 3.0F : static_cast<float>(i % 5);
    }
  }
  void TearDown() override { is_failing = false; }

  /// One for all cases: its self-tests take seconds in the emulation.
  static CudaBackend& backend() {
    static const KernelTable kTable = [] {
      KernelTable table;
      table.values = failing_values<&tridiagonal_values>;
      table.values32 = failing_values<&tridiagonal_values32>;
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

  MatrixReport measured(SpectrumMode mode, bool escalate) {
    const auto input = make_memory_input(decode::float32_view(weights_.data(), 10, 36));
    MatrixInput* const batch[] = {input.get()};
    std::vector<MatrixReport> out(1);
    MeasureOptions options;
    options.mode = mode;
    options.escalate = escalate;
    backend().measure(batch, options, 0, out);
    return out[0];
  }

  std::vector<float> weights_ = std::vector<float>(360);
};

TEST_F(NotConverged, QrTakesOverInEveryModeOrItIsSaidSo) {
  for (const SpectrumMode mode :
       {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const MatrixReport report = measured(mode, true);
    EXPECT_EQ(report.status, MatrixStatus::kMeasured);
    EXPECT_EQ(report.reason, "");
    EXPECT_EQ(report.method, "qr+bidiag64+cuda");
    EXPECT_EQ(report.escalated, mode != SpectrumMode::kStrict);
    EXPECT_EQ(report.sigma.size(), 10U);
    EXPECT_LT(report.check_trace, 1e-12);
    EXPECT_LT(report.check_gram, 1e-12);
    EXPECT_EQ(report.bounds.has_value(), mode == SpectrumMode::kFast);
  }
  for (const SpectrumMode mode : {SpectrumMode::kFast, SpectrumMode::kDefault}) {
    const MatrixReport report = measured(mode, false);
    EXPECT_EQ(report.status, MatrixStatus::kNotConverged);
    EXPECT_EQ(report.reason, "the eigenvalue iteration did not converge");
    EXPECT_FALSE(report.escalated);
    EXPECT_TRUE(report.sigma.empty());
    EXPECT_FALSE(report.bounds.has_value());
  }
  EXPECT_EQ(measured(SpectrumMode::kStrict, false).status, MatrixStatus::kMeasured)
      << "QR is a part of strict";
}

}  // namespace
}  // namespace vindex::test::not_converged_test
