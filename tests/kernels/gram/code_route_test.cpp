// Measurements of E4M3 codes by a back end: codes are multiplied where their scales allow it, with
// the results of the kernels that stand beside.
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "kernels/cuda_backend.hpp"
#include "kernels/route/self_test_inputs.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <array>
#include <cmath>
#include <memory>

namespace vindex::test::code_route_test {
namespace {

using namespace kernels;

int code_gram_calls = 0;
void counted_code_grams(const CodeGramBatch& batch, void* workspace, cudaStream_t stream) {
  ++code_gram_calls;
  form_code_grams(batch, workspace, stream);
}

/// Noise in fp8 blocks under full float32 scales.
TEST(CodeRoute, CodesAreMultipliedWhereThatIsRight) {
  constexpr std::int64_t kRows = 200;
  constexpr std::int64_t kCols = 60;
  const decode::Encoding encoding = decode::fp8_block_encoding(128, 128);
  const EncodedSample sample(encoding, kRows, kCols, decode::ElementType::kF32);
  const auto input = make_memory_input(sample.matrix());
  MatrixInput* const batch[] = {input.get()};
  KernelTable table;
  table.code_grams = counted_code_grams;
  CudaBackend backend(0, table, {.order = kEmulatedTrialOrder});
  std::vector<MatrixReport> reports;
  MeasureOptions options;
  options.mode = SpectrumMode::kStrict;
  options.sign_flip_draws = 2;
  for (const char* route : {"two-stage", "two-stage+kernels-former"}) {
    options.svd_route = route;
    std::vector<MatrixReport> out(1);
    backend.measure(batch, options, 0, out);
    reports.push_back(out[0]);
  }
  EXPECT_EQ(code_gram_calls, 3 + 3 + 3) << "of two self-tests, of the measurement and its draws";
  EXPECT_EQ(reports[0].method, "gram64+band64+cuda");
  EXPECT_EQ(reports[0].status, MatrixStatus::kMeasured);
  ASSERT_EQ(reports[0].sigma.size(), reports[1].sigma.size());
  const double largest = reports[1].sigma[0];
  for (std::size_t i = 0; i < reports[0].sigma.size(); ++i) {
    EXPECT_NEAR(reports[0].sigma[i], reports[1].sigma[i], 2e-14 * largest);
  }
  EXPECT_LE(reports[0].sigma_error, 4.0 * reports[1].sigma_error + 1e-13 * largest);
  EXPECT_NEAR(reports[0].moments.sum_squares, reports[1].moments.sum_squares,
              1e-13 * reports[1].moments.sum_squares);
  ASSERT_TRUE(reports[0].sign_flip && reports[1].sign_flip);
}

/// One batch of scales that round nothing, that do, and under which weights are subnormal.
TEST(CodeRoute, EveryKindOfScalesIsMeasured) {
  const decode::Encoding encoding = decode::fp8_block_encoding(128, 128);
  const EncodedSample sample(encoding, 200, 40, decode::ElementType::kF32);
  const std::array<float, 2> scales[] = {
      {1.0F, 0.5F}, {1.1F, 0.7F}, {1e-39F, 3e-39F}, {1.3F, 2.1F}};
  std::vector<std::unique_ptr<MatrixInput>> inputs;
  std::vector<MatrixInput*> batch;
  for (const std::array<float, 2>& own : scales) {
    decode::EncodedMatrix matrix = sample.matrix();
    matrix.companions[0].bytes = std::as_bytes(std::span(own));
    inputs.push_back(make_memory_input(matrix));
    batch.push_back(inputs.back().get());
  }
  KernelTable table;
  table.code_grams = counted_code_grams;
  CudaBackend backend(0, table, passed_trials());
  MeasureOptions options;
  options.mode = SpectrumMode::kStrict;
  backend.prepare(options);
  code_gram_calls = 0;
  std::vector<MatrixReport> coded(batch.size());
  backend.measure(batch, options, 0, coded);
  EXPECT_EQ(code_gram_calls, 3) << "the third matrix divides the second from the fourth";
  options.svd_route = "two-stage+kernels-former";
  std::vector<MatrixReport> former(batch.size());
  backend.measure(batch, options, 0, former);
  EXPECT_EQ(code_gram_calls, 3);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ASSERT_EQ(coded[i].status, MatrixStatus::kMeasured) << coded[i].reason;
    ASSERT_EQ(coded[i].sigma.size(), 40U);
    for (std::size_t k = 0; k < 40; ++k) {
      EXPECT_NEAR(coded[i].sigma[k], former[i].sigma[k], 2e-14 * former[i].sigma[0]) << i;
    }
    EXPECT_LE(std::abs(coded[i].sigma[0] - former[i].sigma[0]),
              coded[i].sigma_error + former[i].sigma_error);
  }
}

}  // namespace
}  // namespace vindex::test::code_route_test
