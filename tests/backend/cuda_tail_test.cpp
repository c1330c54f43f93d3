// Tails of batches on the emulated device: matrices that lose different numbers of values, some
// none and some too many, measured together and alone; memory; streams whose work comes late. And
// `fast`, which is the same spectrum without a tail.
#include "backend_fixture.hpp"

#include "tests/emulated_cuda/emulated_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <emulated/device.hpp>

namespace vindex::test::cuda_tail_test {
namespace {

constexpr std::int64_t kRows = 150;
constexpr std::int64_t kCols = 132;

/// A bulk between 1 and 0.2, and `below` values between 1e-2 and 1e-4.
FloatMatrix with_tail(std::int64_t below, std::uint64_t seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kCols; ++i) {
    const std::int64_t left = kCols - 1 - i;
    values.push_back(left >= below ? 1.0 - 0.8 * static_cast<double>(i) / static_cast<double>(kCols)
                                   : 1e-4 * std::pow(100.0, static_cast<double>(left) /
                                                                static_cast<double>(below)));
  }
  return matrix_with_spectrum(kRows, kCols, values, seed);
}

class CudaTail : public ::testing::Test {
 protected:
  void TearDown() override {
    emulated::set_ordering(emulated::Ordering::kAtOnce);
    emulated::set_schedule_seed(0);
  }
  static Backend& backend() { return *emulated_cuda_backend(); }
  static std::vector<MatrixReport> measure(Backend& device,
                                           const std::vector<FloatMatrix>& matrices,
                                           const MeasureOptions& options) {
    std::vector<std::unique_ptr<MatrixInput>> inputs;
    std::vector<MatrixInput*> batch;
    for (const FloatMatrix& one : matrices) {
      inputs.push_back(make_memory_input(as_encoded(one), false, 5));
      batch.push_back(inputs.back().get());
    }
    std::vector<MatrixReport> out(batch.size());
    device.measure(batch, options, 0, out);
    return out;
  }
  /// The route by name, so that a small side begins in float32.
  static MeasureOptions two_stage(SpectrumMode mode = SpectrumMode::kDefault,
                                  bool escalate = true) {
    MeasureOptions options = with_mode(mode, escalate);
    options.svd_route = "two-stage";
    return options;
  }
};

TEST_F(CudaTail, TheSameBitsInEveryBatchAndOrder) {
  // More than one part (four multiprocessors) and more of a kind than there are slots (two).
  const std::vector<FloatMatrix> matrices = {with_tail(3, 1), with_tail(8, 3), with_tail(2, 4),
                                             with_tail(30, 6), gaussian_matrix(kRows, kCols, 2)};
  const MeasureOptions options = two_stage();
  const auto together = measure(backend(), matrices, options);
  EXPECT_EQ(together[0].method, "gram32+band32+band64+cuda");
  EXPECT_EQ(together[3].method.substr(0, 13), "gram64+band64") << "too many";
  EXPECT_TRUE(together[3].escalated);
  emulated::set_ordering(emulated::Ordering::kLate);
  emulated::set_schedule_seed(77);
  for (const std::size_t i : {0UL, 1UL, 3UL}) {
    const auto alone = measure(backend(), {matrices[i]}, options)[0];
    EXPECT_EQ(alone.sigma, together[i].sigma) << i;
    EXPECT_EQ(alone.sigma_error, together[i].sigma_error) << i;
    EXPECT_EQ(alone.method, together[i].method) << i;
    const auto reference = reference_singular_values(matrices[i]);
    for (std::size_t k = 0; k < reference.size(); ++k) {
      EXPECT_NEAR(alone.sigma[k], reference[k], alone.sigma_error) << i;
    }
  }
}

TEST_F(CudaTail, DeviceMemoryIsBoundedAsPlanned) {
  const std::vector<FloatMatrix> matrices = {with_tail(5, 1), gaussian_matrix(kRows, kCols, 2)};
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const auto device = make_emulated_cuda_backend(SelfTests::kTakenAsPassed);
    const MeasureOptions options = two_stage(mode);
    device->prepare(options);
    const std::size_t before = emulated::device_bytes_in_use();
    (void)emulated::take_peak_device_bytes();
    const auto reports = measure(*device, matrices, options);
    const std::size_t taken = emulated::take_peak_device_bytes() - before;
    EXPECT_NE(reports[0].method.find("+band64+cuda"), std::string::npos) << reports[0].method;
    EXPECT_LE(taken, device->device_workspace_bytes(*as_encoded(matrices[0]).encoding, kRows, kCols,
                                                    options, 3));
  }
}

TEST_F(CudaTail, WithoutEscalationATailIsFoundAllTheSame) {
  const auto report =
      measure(backend(), {with_tail(5, 9)}, two_stage(SpectrumMode::kDefault, false))[0];
  EXPECT_EQ(report.method, "gram32+band32+band64+cuda");
  EXPECT_TRUE(report.tail_reliable);
  EXPECT_FALSE(report.escalated);
}

TEST_F(CudaTail, FastIsTheFloat32SpectrumOfDefault) {
  for (const FloatMatrix& matrix : {gaussian_matrix(150, 80, 1), gaussian_matrix(90, 200, 2)}) {
    const auto full = measure(backend(), {matrix}, two_stage(SpectrumMode::kDefault, false))[0];
    const auto fast = measure(backend(), {matrix}, two_stage(SpectrumMode::kFast))[0];
    EXPECT_EQ(fast.method, "gram32+band32+cuda");
    ASSERT_EQ(fast.sigma.size(), 64U);
    EXPECT_TRUE(std::equal(fast.sigma.begin(), fast.sigma.end(), full.sigma.begin()));
    EXPECT_TRUE(fast.bounds.has_value());
    EXPECT_FALSE(fast.tail_reliable);
  }
}

}  // namespace
}  // namespace vindex::test::cuda_tail_test
