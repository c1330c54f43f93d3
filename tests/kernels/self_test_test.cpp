// The self-tests: sound kernels pass on every kind of device, and each kernel put wrong, in ways a
// compiler or a device may, is found and named.
#include "cuda_backend.hpp"
#include "kernels/kernel_fixture.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>

namespace vindex::test {
namespace {

using namespace kernels;

constexpr DeviceTraits kHopper = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};

std::vector<SelfTest> tests_of(const KernelTable& table,
                               std::initializer_list<KernelUnderTest> wanted) {
  SolverLane lane;
  return run_self_tests(lane, table, kHopper, std::vector<KernelUnderTest>(wanted));
}

/// One element of the Gram a little off.
void wrong_gram(const decode::Encoding& encoding, const OperandPlan& plan, const GramBatch& batch,
                void* workspace, std::size_t workspace_bytes, ProductKernel kernel, float* grams,
                GramFacts* facts, cudaStream_t stream) {
  form_grams(encoding, plan, batch, workspace, workspace_bytes, kernel, grams, facts, stream);
  check(cudaStreamSynchronize(stream));
  float value = 0.0F;
  check(cudaMemcpy(&value, grams + 35, sizeof value, cudaMemcpyDeviceToHost));
  value *= 1.001F;
  check(cudaMemcpy(grams + 35, &value, sizeof value, cudaMemcpyHostToDevice));
}

/// The last subdiagonal lost.
template <typename Real>
void wrong_band(const BandPlan& plan, const BandBatch<Real, Real>& batch, cublasHandle_t blas,
                cudaStream_t stream) {
  reduce_to_band(plan, batch, blas, stream);
  check(cudaMemsetAsync(batch.band + band_index(50, 50 - kBand), 0, sizeof(Real), stream));
}

void wrong_chase(double* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                 double* diagonal, double* off_diagonal, cudaStream_t stream) {
  chase_bands<double, double>(bands, n, batch, shape, diagonal, off_diagonal, stream);
  check(cudaMemsetAsync(off_diagonal + n + n / 2, 0, sizeof(double), stream));
}

void wrong_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                  std::int64_t batch, ValueOrder /*order*/, double* values, int* failed,
                  cudaStream_t stream, std::int64_t rows) {
  tridiagonal_values(diagonal, off_diagonal, n, batch, ValueOrder::kDescending, values, failed,
                     stream, rows);
}

void throwing_values(const double*, const double*, std::int64_t, std::int64_t, ValueOrder, double*,
                     int*, cudaStream_t, std::int64_t) {
  throw DeviceError("E-CUDA", "no such kernel image");
}

TEST(SelfTests, SoundKernelsPassAndSayByHowMuch) {
  const auto results = tests_of(
      {}, {KernelUnderTest::kGramBlockScaled, KernelUnderTest::kGramHalf,
           KernelUnderTest::kGramBfloat16, KernelUnderTest::kGramHalfPair, KernelUnderTest::kBand32,
           KernelUnderTest::kBand64, KernelUnderTest::kChase, KernelUnderTest::kValues});
  for (const SelfTest& test : results) {
    EXPECT_TRUE(test.passed) << kernel_name(test.kernel) << ": " << test.detail;
    EXPECT_NE(test.detail.find("allowed"), std::string::npos);
    std::printf("self-test of %s: %s\n", std::string(kernel_name(test.kernel)).c_str(),
                test.detail.c_str());
  }
}

TEST(SelfTests, EveryKernelPutWrongIsFound) {
  KernelTable table;
  table.gram = wrong_gram;
  table.band32 = wrong_band<float>;
  table.band64 = wrong_band<double>;
  table.chase64 = wrong_chase;
  table.values = wrong_values;
  for (const SelfTest& test :
       tests_of(table, {KernelUnderTest::kGramBlockScaled, KernelUnderTest::kGramBfloat16,
                        KernelUnderTest::kBand32, KernelUnderTest::kBand64, KernelUnderTest::kChase,
                        KernelUnderTest::kValues})) {
    EXPECT_FALSE(test.passed) << kernel_name(test.kernel) << ": " << test.detail;
  }
  table.values = throwing_values;
  const auto thrown = tests_of(table, {KernelUnderTest::kValues});
  EXPECT_FALSE(thrown[0].passed);
  EXPECT_NE(thrown[0].detail.find("no such kernel image"), std::string::npos);
}

TEST(SelfTests, ABackEndWithAWrongKernelMeasuresByTheLibraryAndSaysSo) {
  KernelTable table;
  table.values = wrong_values;
  CudaBackend backend(0, table);
  backend.prepare({});
  const measure::BackendInfo info = backend.info();
  ASSERT_EQ(info.notes.size(), 1U);
  EXPECT_NE(info.notes[0].find("bisection failed its self-test"), std::string::npos);
  EXPECT_EQ(info.self_tests.size(), static_cast<std::size_t>(kKernelsUnderTest));
  EXPECT_EQ(std::count_if(info.self_tests.begin(), info.self_tests.end(),
                          [](const auto& test) { return !test.passed; }),
            1);
  const std::vector<float> weights = {3.0F, 0.0F, 0.0F, 4.0F};
  const decode::Encoding encoding = decode::plain_encoding(decode::ElementType::kF32);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 2;
  matrix.cols = 2;
  matrix.codes = reinterpret_cast<const std::byte*>(weights.data());
  matrix.row_stride_bytes = 8;
  const auto input = measure::make_memory_input(matrix);
  measure::MatrixInput* const batch[] = {input.get()};
  std::vector<measure::MatrixReport> out(1);
  backend.measure(batch, {}, 0, out);
  EXPECT_EQ(out[0].method, "gram64+trd64+cuda");
  EXPECT_NEAR(out[0].sigma[0], 4.0, 1e-14);
  EXPECT_NEAR(out[0].sigma[1], 3.0, 1e-14);
  measure::MeasureOptions explicit_wish;
  explicit_wish.svd_route = "two-stage";
  EXPECT_THROW(backend.measure(batch, explicit_wish, 0, out), UsageError);
}

}  // namespace
}  // namespace vindex::test
