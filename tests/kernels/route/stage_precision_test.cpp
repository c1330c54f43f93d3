// Which stages behind a float32 band compute in float32, and that a spectrum for which they are not
// enough, or whose sums refute it, gets float64 stages from the band that was kept, and no other
// does, and nothing before the band is done again.
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "kernels/cuda_backend.hpp"
#include "kernels/tridiagonal/precision.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/support/known_spectra.hpp"

#include <algorithm>
#include <cmath>
#include <emulated/device.hpp>
#include <memory>
#include <vector>

namespace vindex::test::stage_precision_test {
namespace {

using namespace kernels;

constexpr DeviceTraits kHopper = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};
constexpr DeviceTraits kAda = {.major = 8, .minor = 9, .shared_bytes = 99U << 10U};
constexpr NewerKernels kBoth = {.chase32 = true, .values32 = true};
constexpr StagePrecision kNarrow = {.chase32 = true, .values32 = true};

StageTask task(std::int64_t rows, std::int64_t cols, const NewerKernels& newer = kBoth,
               const DeviceTraits& device = kHopper) {
  return {.rows = rows, .cols = cols, .is_float32 = true, .newer = newer, .device = device};
}

TEST(StagePrecision, FollowsFromWhatNoiseOfTheShapeIsPromised) {
  EXPECT_EQ(choose_stages(task(7168, 2048)), kNarrow);
  EXPECT_EQ(choose_stages(task(2048, 7168)), kNarrow);
  EXPECT_EQ(choose_stages(task(512, 1024)), kNarrow);
  EXPECT_EQ(choose_stages(task(12288, 4096)), kNarrow);
  EXPECT_EQ(choose_stages(task(28672, 8192)), kNarrow);
  EXPECT_EQ(choose_stages(task(4096, 4096)), StagePrecision{}) << "noise ends near zero";
  EXPECT_EQ(choose_stages(task(4096, 3900)), StagePrecision{});
  StageTask fast = task(4096, 4096);
  fast.is_fast = true;
  EXPECT_EQ(choose_stages(fast), kNarrow) << "the largest values alone";
  StageTask wide = task(7168, 2048);
  wide.is_float32 = false;
  EXPECT_EQ(choose_stages(wide), StagePrecision{});
  EXPECT_LT(share_of_noise(7168, 2048, kNarrow), 0.5);
  EXPECT_GT(share_of_noise(4096, 4096, kNarrow), 10.0);
  EXPECT_LT(share_of_noise(7168, 2048, {}), share_of_noise(7168, 2048, {.chase32 = true}));
}

TEST(StagePrecision, OnlyTrustedKernelsButWhereFloat64IsSlow) {
  EXPECT_EQ(choose_stages(task(7168, 2048, {})), StagePrecision{});
  EXPECT_EQ(choose_stages(task(7168, 2048, {.values32 = true})),
            (StagePrecision{.chase32 = false, .values32 = true}));
  EXPECT_EQ(choose_stages(task(7168, 2048, {}, kAda)), StagePrecision{})
      << "its routes say when (cuda_route_test.cpp)";
  EXPECT_EQ(choose_stages(task(4096, 4096, kBoth, kAda)), kNarrow) << "doubt comes after";
  for (const DeviceTraits& device :
       {DeviceTraits{.major = 8, .minor = 6}, kAda, DeviceTraits{.major = 12, .minor = 0}}) {
    EXPECT_FALSE(has_fast_float64(device));
  }
  for (const DeviceTraits& device :
       {DeviceTraits{.major = 8, .minor = 0}, kHopper, DeviceTraits{.major = 10, .minor = 0}}) {
    EXPECT_TRUE(has_fast_float64(device));
  }
}

struct Calls {
  int gram = 0, band = 0, chase = 0, values = 0;
  std::vector<std::int64_t> wide_chases, wide_values;  ///< matrices of each call
};
Calls calls;
/// Of the next float32 chase, the matrix whose tridiagonal form it spoils; -1: none.
std::int64_t spoiled = -1;

void counted_gram(const decode::Encoding& encoding, const OperandPlan& plan, const GramBatch& batch,
                  void* workspace, std::size_t workspace_bytes, ProductKernel kernel, float* grams,
                  GramFacts* facts, cudaStream_t stream) {
  ++calls.gram;
  form_grams(encoding, plan, batch, workspace, workspace_bytes, kernel, grams, facts, stream);
}
void counted_band(const BandPlan& plan, const BandBatch<float>& batch, cudaStream_t stream) {
  ++calls.band;
  reduce_to_band(plan, batch, stream);
}
void spoiling_chase(float* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                    int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                    long long patience) {
  ++calls.chase;
  shared_chase<float, float>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                             patience);
  if (spoiled >= 0 && spoiled < batch) {
    check(cudaMemsetAsync(diagonal + spoiled * n + 3, 0, sizeof(double), stream));
  }
}
void counted_wide_chase(float* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                        int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                        long long patience) {
  calls.wide_chases.push_back(batch);
  shared_chase<float, double>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                              patience);
}
void counted_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                    std::int64_t batch, ValueOrder order, double* values, int* failed,
                    cudaStream_t stream, std::int64_t rows) {
  ++calls.values;
  tridiagonal_values32(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
}
void counted_wide_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                         std::int64_t batch, ValueOrder order, double* values, int* failed,
                         cudaStream_t stream, std::int64_t rows) {
  calls.wide_values.push_back(batch);
  tridiagonal_values(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
}

class StagesAgain : public ::testing::Test {
 protected:
  static CudaBackend& backend() {
    static const KernelTable kTable = [] {
      KernelTable table;
      table.gram = counted_gram;
      table.band32 = counted_band;
      table.shared_chase32 = spoiling_chase;
      table.shared_chase32_in_64 = counted_wide_chase;
      table.values32 = counted_values;
      table.values = counted_wide_values;
      return table;
    }();
    static const std::unique_ptr<CudaBackend> kBackend = [] {
      auto made = std::make_unique<CudaBackend>(0, kTable, passed_trials());
      made->prepare({.svd_route = "two-stage"});
      return made;
    }();
    return *kBackend;
  }

  std::vector<MatrixReport> measured(const std::vector<FloatMatrix>& matrices,
                                     const MeasureOptions& options) {
    backend();
    calls = {};
    std::vector<std::unique_ptr<MatrixInput>> inputs;
    std::vector<MatrixInput*> batch;
    for (const FloatMatrix& one : matrices) {
      inputs.push_back(
          make_memory_input(decode::float32_view(one.values.data(), one.rows, one.cols), false, 5));
      batch.push_back(inputs.back().get());
    }
    std::vector<MatrixReport> out(batch.size());
    backend().measure(batch, options, 0, out);
    return out;
  }

  static void expect_right(const FloatMatrix& matrix, const MatrixReport& report) {
    const std::vector<double> reference = reference_singular_values(matrix);
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    EXPECT_EQ(report.method, "gram32+band32+cuda");
    EXPECT_FALSE(report.escalated);
    for (std::size_t i = 0; i < report.sigma.size(); ++i) {
      EXPECT_NEAR(report.sigma[i], reference[i], report.sigma_error) << i;
    }
  }

  static std::vector<FloatMatrix> noise(int count) {
    std::vector<FloatMatrix> out;
    for (int i = 0; i < count; ++i) {
      out.push_back(gaussian_matrix(160, 40, static_cast<std::uint64_t>(60 + i)));
    }
    return out;
  }

  void TearDown() override { spoiled = -1; }
};

constexpr const char* kTwoStage = "two-stage";

TEST_F(StagesAgain, NoneWhereFloat32IsEnough) {
  const auto matrices = noise(4);
  const auto reports = measured(matrices, {.svd_route = kTwoStage});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    expect_right(matrices[i], reports[i]);
  }
  EXPECT_EQ(calls.chase, 1);
  EXPECT_EQ(calls.values, 1);
  EXPECT_TRUE(calls.wide_chases.empty());
  EXPECT_TRUE(calls.wide_values.empty());
}

TEST_F(StagesAgain, OnlyOfWhatItsSumsRefuteAndOnlyFromTheBand) {
  const auto matrices = noise(4);
  for (const SpectrumMode mode : {SpectrumMode::kFast, SpectrumMode::kDefault}) {
    for (const bool escalate : {true, false}) {
      spoiled = 2;
      MeasureOptions options = {.mode = mode, .svd_route = kTwoStage};
      options.escalate = escalate;
      const auto reports = measured(matrices, options);
      for (std::size_t i = 0; i < reports.size(); ++i) {
        SCOPED_TRACE(i);
        expect_right(matrices[i], reports[i]);
        EXPECT_EQ(reports[i].reason, "");
      }
      EXPECT_EQ(calls.gram, 1);
      EXPECT_EQ(calls.band, 1);
      EXPECT_EQ(calls.chase, 1);
      EXPECT_EQ(calls.wide_chases, std::vector<std::int64_t>{1});
      EXPECT_EQ(calls.wide_values, std::vector<std::int64_t>{1});
    }
  }
}

TEST_F(StagesAgain, OfWhatFloat32LeavesOpenAloneOrInABatch) {
  auto matrices = noise(3);
  // Values near s_1 / 100 that are dense, of which float32 stages leave too little.
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    values.push_back(1.0 - 0.99 * i / 39.0);
  }
  matrices.insert(matrices.begin() + 1, matrix_with_spectrum(160, 40, values, 3));
  const auto reports = measured(matrices, {.svd_route = kTwoStage});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    expect_right(matrices[i], reports[i]);
  }
  EXPECT_EQ(calls.wide_chases, std::vector<std::int64_t>{1});
  EXPECT_EQ(calls.band, 1);
  const auto alone = measured({matrices[1]}, {.svd_route = kTwoStage});
  EXPECT_EQ(alone[0].sigma, reports[1].sigma) << "whatever is beside it";
  const auto former = measured({matrices[1]}, {.svd_route = "two-stage+kernels-former"});
  EXPECT_EQ(calls.chase, 0);
  // The same stages of the same band, but that elements round once per group of sweeps, and groups
  // of the former chase have others.
  expect_right(matrices[1], former[0]);
  for (std::size_t i = 0; i < former[0].sigma.size(); ++i) {
    EXPECT_NEAR(former[0].sigma[i], reports[1].sigma[i], 1e-6) << i;
  }
}

TEST_F(StagesAgain, OfADrawWhoseSumsRefuteIt) {
  const auto matrices = noise(2);
  MeasureOptions options = {.svd_route = kTwoStage, .sign_flip_draws = 2};
  const auto sound = measured(matrices, options);
  EXPECT_TRUE(calls.wide_chases.empty());
  spoiled = 1;
  const auto spoilt = measured(matrices, options);
  EXPECT_EQ(calls.wide_chases, (std::vector<std::int64_t>{1, 1, 1}));
  ASSERT_TRUE(spoilt[1].sign_flip.has_value());
  EXPECT_EQ(spoilt[0].sigma, sound[0].sigma);
  EXPECT_EQ(calls.band, 3) << "the measurement and two draws";
}

}  // namespace
}  // namespace vindex::test::stage_precision_test
