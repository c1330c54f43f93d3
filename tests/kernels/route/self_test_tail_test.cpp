// The trial of the kernels of a tail: sound ones pass, each put wrong is found, and then nothing is
// kept for a tail.
#include "decode/encoding/encoded_matrix.hpp"
#include "kernels/cuda_backend.hpp"
#include "kernels/route/self_test_inputs.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"

#include <gtest/gtest.h>

namespace vindex::test::self_test_tail_test {
namespace {

using namespace kernels;

/// The verdict on the tail of `table`, behind a reduction by `variant`.
SelfTest verdict_on(const KernelTable& table, Variant variant) {
  constexpr DeviceTraits kHopper = {.major = 9, .minor = 0, .shared_bytes = 227U << 10U};
  SolverLane lane;
  const KernelTrial wanted[] = {{KernelUnderTest::kTail, variant}};
  SelfTest told;
  const auto broken =
      run_self_tests(lane, table, kHopper, wanted, [&](const SelfTest& test) { told = test; });
  EXPECT_FALSE(broken.has_value());
  return told;
}

/// A factor that is kept where the reduction still reads.
template <typename Real>
void spoiling_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream) {
  reduce_to_band(plan, batch, stream);
  if (batch.keep_factor) {
    check(cudaMemsetAsync(batch.band + band_index(33, 30), 0, sizeof(Real), stream));
  }
}

/// The first element of the first column.
template <typename Real>
void wrong_turn(const BackTransform<Real>& turn, cudaStream_t stream) {
  back_transform(turn, stream);
  check(cudaMemsetAsync(turn.to.data, 0, sizeof(double), stream));
}

template <typename Real>
void wrong_factor(const BandSystem<Real>& system, const double* shifts, double* factors, int* info,
                  cudaStream_t stream) {
  factor_bands(system, shifts, factors, info, stream);
  check(cudaMemsetAsync(factors, 0, sizeof(double), stream));
}
template <typename Real>
void refusing_factor(const BandSystem<Real>& system, const double* shifts, double* factors,
                     int* info, cudaStream_t stream) {
  factor_bands(system, shifts, factors, info, stream);
  check(cudaMemsetAsync(info + 1, 1, sizeof(int), stream));
}

/// The last column is left as it was.
void wrong_solve(const double* factors, std::int64_t order, std::int64_t slots, double* columns,
                 std::int64_t leading, std::int64_t stride, std::int64_t count,
                 cudaStream_t stream) {
  std::vector<double> last(static_cast<std::size_t>(order));
  double* const where = columns + (slots - 1) * stride + (count - 1) * leading;
  check(cudaMemcpy(last.data(), where, last.size() * sizeof(double), cudaMemcpyDeviceToHost));
  solve_bands(factors, order, slots, columns, leading, stride, count, stream);
  check(cudaStreamSynchronize(stream));
  check(cudaMemcpy(where, last.data(), last.size() * sizeof(double), cudaMemcpyHostToDevice));
}

/// Residuals of nothing: every value would be taken for exact.
void wrong_norms(const double* from, std::int64_t rows, std::int64_t columns, double* norms,
                 cudaStream_t stream) {
  column_norms(from, rows, columns, norms, stream);
  check(cudaMemsetAsync(norms, 0, sizeof(double) * static_cast<std::size_t>(columns), stream));
}

int kept_factors = 0;
template <typename Real>
void counted_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream) {
  kept_factors += batch.keep_factor ? 1 : 0;
  reduce_to_band(plan, batch, stream);
}

/// A table with one kernel of the tail put wrong.
struct PlantedFault {
  const char* name;
  void (*plant)(KernelTable& table);
};
constexpr PlantedFault kTailFaults[] = {
    {"keep32", [](KernelTable& table) { table.band32 = spoiling_band<float>; }},
    {"keep64", [](KernelTable& table) { table.band64 = spoiling_band<double>; }},
    {"back_transform32", [](KernelTable& table) { table.back_transform32 = wrong_turn<float>; }},
    {"back_transform64", [](KernelTable& table) { table.back_transform64 = wrong_turn<double>; }},
    {"factor32", [](KernelTable& table) { table.factor32 = wrong_factor<float>; }},
    {"factor64", [](KernelTable& table) { table.factor64 = wrong_factor<double>; }},
    {"refused32", [](KernelTable& table) { table.factor32 = refusing_factor<float>; }},
    {"solve", [](KernelTable& table) { table.solve = wrong_solve; }},
    {"norms", [](KernelTable& table) { table.norms = wrong_norms; }},
};

TEST(TailTrial, EveryKernelOfATailPutWrongIsFound) {
  for (const PlantedFault& fault : kTailFaults) {
    KernelTable table;
    fault.plant(table);
    const SelfTest told = verdict_on(table, Variant::kPlain);
    EXPECT_FALSE(told.passed) << fault.name << ": " << told.detail;
  }
  for (const Variant variant : {Variant::kPlain, Variant::kFast}) {
    const SelfTest told = verdict_on({}, variant);
    EXPECT_TRUE(told.passed) << told.detail;
  }
}

TEST(TailTrial, WhereTheTailIsWrongNothingIsKeptForIt) {
  KernelTable table;
  table.norms = wrong_norms;
  table.band32 = counted_band<float>;
  CudaBackend backend(0, table, passed_trials([](const KernelTrial& trial) {
                        return trial.kernel == KernelUnderTest::kTail;
                      }));
  backend.prepare({});
  const BackendInfo info = backend.info();
  ASSERT_EQ(info.notes.size(), 1U);
  EXPECT_NE(info.notes[0].find("the smallest values again failed its self-test"),
            std::string::npos);
  EXPECT_NE(info.notes[0].find("a whole float64 spectrum runs in its place"), std::string::npos)
      << info.notes[0];
  constexpr std::int64_t kSide = 128;  // large enough for a tail
  std::vector<float> weights(kSide * (kSide + 32));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(random_unit(3, i));
  }
  const auto input = make_memory_input(decode::float32_view(weights.data(), kSide + 32, kSide));
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  kept_factors = 0;
  backend.measure(batch, {}, 0, out);
  EXPECT_EQ(kept_factors, 0);
  EXPECT_EQ(out[0].status, MatrixStatus::kMeasured);
}

}  // namespace
}  // namespace vindex::test::self_test_tail_test
