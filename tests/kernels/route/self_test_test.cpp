// The self-tests: sound kernels pass on every kind of device, and each kernel put wrong, in ways a
// compiler or a device may, is found and named.
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "kernels/cuda_backend.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/route/host_reference.hpp"
#include "kernels/route/self_test_inputs.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"
#include "tests/emulated_cuda/passed_trials.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <vindex/error.hpp>

#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <emulated/device.hpp>
#include <emulated/execution.hpp>
#include <numbers>
#include <stdexcept>

namespace vindex::test::self_test_test {
namespace {

using namespace kernels;

constexpr DeviceTraits kHopper = {
    .major = 9, .minor = 0, .shared_bytes = 227U << 10U, .multiprocessors = 4};

std::vector<SelfTest> tests_of(const KernelTable& table, const std::vector<KernelTrial>& wanted,
                               std::int64_t trial_order = kEmulatedTrialOrder) {
  SolverLane lane;
  std::vector<SelfTest> told;
  const auto broken = run_self_tests(
      lane, table, kHopper, wanted, [&](const SelfTest& test) { told.push_back(test); },
      trial_order);
  EXPECT_FALSE(broken.has_value());
  return told;
}

std::vector<KernelTrial> every_trial() {
  return trials_wanted(parse_route("auto"), SpectrumMode::kDefault, kHopper);
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
void wrong_band(const BandPlan& plan, const BandBatch<Real>& batch, cudaStream_t stream) {
  reduce_to_band(plan, batch, stream);
  check(cudaMemsetAsync(batch.band + band_index(50, 50 - kBand), 0, sizeof(Real), stream));
}

void wrong_deferred_band(const BandPlan& plan, const BandBatch<float>& batch, cudaStream_t stream) {
  reduce_to_band_deferred(plan, batch, stream);
  check(cudaMemsetAsync(batch.band + band_index(50, 50 - kBand), 0, sizeof(float), stream));
}

void wrong_chase(double* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                 double* diagonal, double* off_diagonal, cudaStream_t stream) {
  chase_bands<double, double>(bands, n, batch, shape, diagonal, off_diagonal, stream);
  check(cudaMemsetAsync(off_diagonal + n + n / 2, 0, sizeof(double), stream));
}

/// What a flag too early leaves, in one of the two plans that are tried.
void wrong_shared_chase(float* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                        int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                        long long patience) {
  shared_chase<float, float>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                             patience);
  if (plan.blocks > 1) {
    double value = 0.0;
    check(cudaMemcpy(&value, diagonal + n + n / 2, sizeof value, cudaMemcpyDeviceToHost));
    value *= 1.0 + 0x1p-23;
    check(cudaMemcpy(diagonal + n + n / 2, &value, sizeof value, cudaMemcpyHostToDevice));
  }
}

void wrong_values(const double* diagonal, const double* off_diagonal, std::int64_t n,
                  std::int64_t batch, ValueOrder /*order*/, double* values, int* failed,
                  cudaStream_t stream, std::int64_t rows) {
  tridiagonal_values(diagonal, off_diagonal, n, batch, ValueOrder::kDescending, values, failed,
                     stream, rows);
}

/// One element of the last column.
void wrong_wide_turn(const BackTransform<float>& turn, int warps, cudaStream_t stream) {
  wide_back_transform(turn, warps, stream);
  const std::int64_t last =
      (turn.slots - 1) * turn.to.stride + (turn.columns - 1) * turn.to.leading;
  check(cudaMemsetAsync(turn.to.data + last + 40, 0, sizeof(double), stream));
}

int sliced_gram_calls = 0;
void counted_sliced_gram(const SlicedGramTask& task, void* workspace, cudaStream_t stream) {
  ++sliced_gram_calls;
  add_sliced_gram(task, workspace, stream);
}

/// Right but for a part in 10^5, and only where there are several strips or groups of sweeps.
void slightly_wrong_chase32(float* bands, std::int64_t n, std::int64_t batch,
                            const ChaseShape& shape, double* diagonal, double* off_diagonal,
                            cudaStream_t stream) {
  chase_bands<float, float>(bands, n, batch, shape, diagonal, off_diagonal, stream);
  if (n < 100) {
    return;
  }
  check(cudaStreamSynchronize(stream));
  double value = 0.0;
  check(cudaMemcpy(&value, diagonal + 130, sizeof value, cudaMemcpyDeviceToHost));
  value += 1e-5;
  check(cudaMemcpy(diagonal + 130, &value, sizeof value, cudaMemcpyHostToDevice));
}

void wrong_values32(const double* diagonal, const double* off_diagonal, std::int64_t n,
                    std::int64_t batch, ValueOrder order, double* values, int* failed,
                    cudaStream_t stream, std::int64_t rows) {
  tridiagonal_values32(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
  check(cudaMemcpyAsync(values + 5, values + 6, sizeof(double), cudaMemcpyDeviceToDevice, stream));
}

/// Twice the Gram: an addition that should have been an assignment.
void wrong_sliced_gram(const SlicedGramTask& task, void* workspace, cudaStream_t stream) {
  SlicedGramTask again = task;
  again.first = false;
  add_sliced_gram(task, workspace, stream);
  add_sliced_gram(again, workspace, stream);
}

/// Codes times scales as they are before they are rounded.
void unrounded_code_grams(const CodeGramBatch& batch, void* workspace, cudaStream_t stream) {
  CodeGramBatch exact = batch;
  exact.rounded = false;
  form_code_grams(exact, workspace, stream);
}

void throwing_values(const double*, const double*, std::int64_t, std::int64_t, ValueOrder, double*,
                     int*, cudaStream_t, std::int64_t) {
  throw DeviceError("E-CUDA", "no such kernel image");
}

__global__ void trapping_kernel() { emulated::fault("a trap"); }

/// wgmma that waits for what never comes and traps; mma.sync as it is.
void trapping_gram(const decode::Encoding& encoding, const OperandPlan& plan,
                   const GramBatch& batch, void* workspace, std::size_t workspace_bytes,
                   ProductKernel kernel, float* grams, GramFacts* facts, cudaStream_t stream) {
  if (kernel == ProductKernel::kWarpgroup) {
    launch(trapping_kernel, 1, 32, 0, stream);
    return;
  }
  form_grams(encoding, plan, batch, workspace, workspace_bytes, kernel, grams, facts, stream);
}

/// Errors of the emulated device are sticky, as a device's, while it lives.
struct StickyErrors {
  StickyErrors() { emulated::set_sticky_errors(true); }
  ~StickyErrors() { emulated::set_sticky_errors(false); }
};

/// A 2 x 2 matrix of float32 with the singular values 4 and 3.
struct SmallMatrix {
  std::vector<float> weights = {3.0F, 0.0F, 0.0F, 4.0F};

  MatrixReport measured_by(CudaBackend& backend, const char* route,
                           SpectrumMode mode = SpectrumMode::kDefault) const {
    const auto input = make_memory_input(decode::float32_view(weights.data(), 2, 2));
    MatrixInput* const batch[] = {input.get()};
    std::vector<MatrixReport> out(1);
    MeasureOptions options;
    options.svd_route = route;
    options.mode = mode;
    backend.measure(batch, options, 0, out);
    return out[0];
  }
};

TEST(SelfTests, SoundKernelsPassAndSayByHowMuch) {
  const auto results = tests_of({}, every_trial(), kTrialOrder);
  EXPECT_EQ(results.size(), every_trial().size());
  for (const SelfTest& test : results) {
    EXPECT_TRUE(test.passed) << trial_name(test.trial) << ": " << test.detail;
    EXPECT_NE(test.detail.find("allowed"), std::string::npos);
    std::printf("self-test of %s: %s\n", trial_name(test.trial).c_str(), test.detail.c_str());
  }
}

TEST(SelfTests, BothChasesFitIntoTheSharedMemoryOfAda) {
  constexpr DeviceTraits kAda = {
      .major = 8, .minor = 9, .shared_bytes = 99U << 10U, .multiprocessors = 4};
  SolverLane lane;
  const KernelTrial wanted[] = {{KernelUnderTest::kChase, Variant::kPlain},
                                {KernelUnderTest::kSharedChase, Variant::kPlain}};
  const auto judge = [](const SelfTest& test) {
    EXPECT_TRUE(test.passed) << trial_name(test.trial) << ": " << test.detail;
  };
  (void)run_self_tests(lane, {}, kAda, wanted, judge, kEmulatedTrialOrder);
}

TEST(SelfTests, EveryKernelPutWrongIsFound) {
  KernelTable table;
  table.gram = wrong_gram;
  table.band32 = wrong_band<float>;
  table.band64 = wrong_band<double>;
  table.deferred_band = wrong_deferred_band;
  table.chase64 = wrong_chase;
  table.shared_chase32 = wrong_shared_chase;
  table.values = wrong_values;
  table.wide_back_transform32 = wrong_wide_turn;
  table.code_grams = unrounded_code_grams;
  table.chase32 = slightly_wrong_chase32;
  table.values32 = wrong_values32;
  for (const SelfTest& test : tests_of(table, every_trial())) {
    EXPECT_EQ(test.passed, test.trial.kernel == KernelUnderTest::kLibraryEigen)
        << trial_name(test.trial) << ": " << test.detail;
  }
  table.values = throwing_values;
  const auto thrown = tests_of(table, {{KernelUnderTest::kValues, Variant::kPlain}});
  EXPECT_FALSE(thrown[0].passed);
  EXPECT_NE(thrown[0].detail.find("no such kernel image"), std::string::npos);
}

TEST(SelfTests, ClustersAreTriedWhereTheyAreNamed) {
  const std::vector<KernelTrial> clusters = {{KernelUnderTest::kGramClusters, Variant::kPlain}};
  for (const std::uint64_t seed : {0ULL, 1ULL, 2ULL}) {
    emulated::set_schedule_seed(seed);
    const auto told = tests_of({}, clusters);
    EXPECT_TRUE(told[0].passed) << told[0].detail;
  }
  emulated::set_schedule_seed(0);
  KernelTable table;
  table.gram = wrong_gram;
  EXPECT_FALSE(tests_of(table, clusters)[0].passed);
  emulated::lose_bulk_copy(30);  // of those to both blocks
  const auto lost = tests_of({}, clusters);
  emulated::lose_bulk_copy(0);
  EXPECT_FALSE(lost[0].passed);
  EXPECT_NE(lost[0].detail.find("waits for ever for a barrier"), std::string::npos)
      << lost[0].detail;
  clear_trap_report();
}

TEST(SelfTests, AGramThatIsWrongSaysWhere) {
  KernelTable table;
  table.gram = wrong_gram;
  const auto told = tests_of(table, {{KernelUnderTest::kGramBfloat16, Variant::kPlain}});
  EXPECT_FALSE(told[0].passed);
  EXPECT_NE(told[0].detail.find("1 wrong, first at (0, 35)"), std::string::npos) << told[0].detail;
  EXPECT_NE(told[0].detail.find("by 64 x 64: (0, 0) 1; by row modulo 8: 1 0 0 0 0 0 0 0"),
            std::string::npos)
      << told[0].detail;
}

TEST(SelfTests, WhateverAKernelsCallThrowsIsItsVerdict) {
  KernelTable table;
  table.values = [](const double*, const double*, std::int64_t, std::int64_t, ValueOrder, double*,
                    int*, cudaStream_t,
                    std::int64_t) { throw std::logic_error("a promise that does not hold"); };
  const auto told = tests_of(table, {{KernelUnderTest::kValues, Variant::kPlain},
                                     {KernelUnderTest::kChase, Variant::kPlain}});
  ASSERT_EQ(told.size(), 2U);
  EXPECT_FALSE(told[0].passed);
  EXPECT_EQ(told[0].detail, "a promise that does not hold");
  EXPECT_TRUE(told[1].passed) << "the next is tried";
  table.values = [](const double*, const double*, std::int64_t, std::int64_t, ValueOrder, double*,
                    int*, cudaStream_t, std::int64_t) { throw OutOfMemory("device memory", 7); };
  EXPECT_THROW((void)tests_of(table, {{KernelUnderTest::kValues, Variant::kPlain}}), OutOfMemory)
      << "says nothing about a kernel";
}

TEST(SelfTests, ATrapOfWgmmaCostsNoEarlierVerdictAndLeavesAWay) {
  const StickyErrors sticky;
  KernelTable table;
  table.gram = trapping_gram;
  const SmallMatrix small;
  {
    CudaBackend backend(0, table, {.order = kEmulatedTrialOrder});
    for (int attempt = 0; attempt < 2; ++attempt) {  // the second is refused at once
      try {
        backend.prepare({});
        FAIL() << "the trap was not noticed";
      } catch (const DeviceError& error) {
        const std::string said = error.what();
        EXPECT_NE(said.find("gram of block-scaled fp8 by wgmma broke this process's hold"),
                  std::string::npos)
            << said;
        EXPECT_NE(said.find("--svd-route two-stage+gram-mma"), std::string::npos) << said;
        EXPECT_NE(said.find("passed before it: bisection, bulge chasing"), std::string::npos)
            << said;
        EXPECT_NE(said.find("gram of binary16 pairs by mma.sync"), std::string::npos) << said;
      }
    }
    const auto told = backend.info().self_tests;
    ASSERT_EQ(told.size(), every_trial().size() - 4);  // the other operands of wgmma, and codes
    for (const auto& test : told) {
      EXPECT_EQ(test.passed, &test != &told.back()) << test.name << ": " << test.detail;
    }
    EXPECT_THROW((void)small.measured_by(backend, "library"), DeviceError) << "the device is gone";
  }
  emulated::reset_device();  // a new process
  CudaBackend backend(0, table, passed_trials());
  EXPECT_EQ(small.measured_by(backend, "two-stage+gram-mma").method, "gram32+band32+cuda");
}

TEST(SelfTests, AnOperandThatNeverComesIsToldOfByStage) {
  const StickyErrors sticky;
  const KernelTable table;
  CudaBackend backend(0, table, passed_trials([](const KernelTrial& trial) {
                        return trial.kernel == KernelUnderTest::kGramBlockScaled;
                      }));
  emulated::lose_bulk_copy(7);
  try {
    backend.prepare({});
    FAIL() << "the trap was not noticed";
  } catch (const DeviceError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("gram of block-scaled fp8 by wgmma broke this process's hold"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("a kernel ended itself: operands did not come (stage "), std::string::npos)
        << said;
    EXPECT_NE(said.find("of matrix 0, thread "), std::string::npos) << said;
  }
  emulated::lose_bulk_copy(0);
  clear_trap_report();
}

TEST(SelfTests, SlowFloat64IsReplacedByInt8ProductsWhereTheyAreRight) {
  KernelTable table;
  table.sliced_gram = wrong_sliced_gram;
  const auto wrong = tests_of(table, {{KernelUnderTest::kSlicedGram, Variant::kPlain}});
  EXPECT_FALSE(wrong[0].passed) << "and so it is no route (cuda_route_test.cpp)";
  table.sliced_gram = counted_sliced_gram;
  emulated::set_compute_capability(8, 9);
  CudaBackend backend(0, table, {.order = kEmulatedTrialOrder});
  emulated::set_compute_capability(9, 0);
  const MatrixReport report = SmallMatrix{}.measured_by(backend, "auto", SpectrumMode::kStrict);
  EXPECT_EQ(report.method, "gram64+band64+cuda");
  EXPECT_NEAR(report.sigma[0], 4.0, 1e-14);
  EXPECT_NEAR(report.sigma[1], 3.0, 1e-14);
  EXPECT_EQ(sliced_gram_calls, 3 + 1) << "the self-test's and the measurement's";
  EXPECT_TRUE(backend.info().notes.empty());
}

TEST(SelfTests, EigenvaluesComeOneByOneWhereBatchesAreWrong) {
  emulated::set_batched_eigenvalue_error(1e-9);
  const KernelTable table;
  CudaBackend backend(0, table, {.order = kEmulatedTrialOrder});
  const MatrixReport report = SmallMatrix{}.measured_by(backend, "library");
  emulated::set_batched_eigenvalue_error(0.0);
  EXPECT_NEAR(report.sigma[0], 4.0, 1e-14);
  EXPECT_NEAR(report.sigma[1], 3.0, 1e-14);
  const BackendInfo info = backend.info();
  ASSERT_EQ(info.notes.size(), 1U);
  EXPECT_NE(info.notes[0].find("by cuSOLVER one by one runs in its place"), std::string::npos)
      << info.notes[0];
}

int wrong_calls = 0;
/// Any shared chase, with the last diagonal element of all lost.
template <typename Stored, typename Real>
void counted_wrong_shared_chase(Stored* bands, std::int64_t n, std::int64_t batch,
                                const ChasePlan& plan, int* flags, double* diagonal,
                                double* off_diagonal, cudaStream_t stream, long long patience) {
  ++wrong_calls;
  shared_chase<Stored, Real>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                             patience);
  check(cudaMemsetAsync(diagonal + batch * n - 1, 0, sizeof(double), stream));
}
template <typename Stored, typename Real>
void wrong_chase_of(Stored* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                    double* diagonal, double* off_diagonal, cudaStream_t stream) {
  chase_bands<Stored, Real>(bands, n, batch, shape, diagonal, off_diagonal, stream);
  check(cudaMemsetAsync(diagonal + batch * n - 1, 0, sizeof(double), stream));
}

TEST(SelfTests, EveryPrecisionOfAChasePutWrongIsFound) {
  using Plant = void (*)(KernelTable&);
  const auto expect_found = [](KernelUnderTest kernel, std::initializer_list<Plant> plants) {
    for (const Plant plant : plants) {
      KernelTable table;
      plant(table);
      EXPECT_FALSE(tests_of(table, {{kernel, Variant::kPlain}})[0].passed)
          << kernel_name(kernel) << ", " << &plant - plants.begin();
    }
  };
  expect_found(KernelUnderTest::kChase,
               {[](KernelTable& table) { table.chase32 = wrong_chase_of<float, float>; },
                [](KernelTable& table) { table.chase32_in_64 = wrong_chase_of<float, double>; },
                [](KernelTable& table) { table.chase64 = wrong_chase_of<double, double>; }});
  expect_found(
      KernelUnderTest::kSharedChase,
      {[](KernelTable& table) { table.shared_chase32 = counted_wrong_shared_chase<float, float>; },
       [](KernelTable& table) {
         table.shared_chase32_in_64 = counted_wrong_shared_chase<float, double>;
       },
       [](KernelTable& table) {
         table.shared_chase64 = counted_wrong_shared_chase<double, double>;
       }});
}

/// Wrong where a plan has the most sweeps and goes round its ring, and nowhere else.
void wrong_when_long(float* bands, std::int64_t n, std::int64_t batch, const ChasePlan& plan,
                     int* flags, double* diagonal, double* off_diagonal, cudaStream_t stream,
                     long long patience) {
  shared_chase<float, float>(bands, n, batch, plan, flags, diagonal, off_diagonal, stream,
                             patience);
  if (n > 100) {
    check(cudaMemsetAsync(off_diagonal + n - 40, 0, sizeof(double), stream));
  }
}

TEST(SelfTests, AChaseByFlagsIsTriedByThePlansOfMeasurements) {
  KernelTable table;
  table.shared_chase32 = wrong_when_long;
  EXPECT_FALSE(tests_of(table, {{KernelUnderTest::kSharedChase, Variant::kPlain}})[0].passed);
}

/// Wrong by mma.sync alone.
void wrong_plain_code_grams(const CodeGramBatch& batch, void* workspace, cudaStream_t stream) {
  CodeGramBatch taken = batch;
  taken.rounded = batch.rounded && batch.product == ProductKernel::kWarpgroup;
  form_code_grams(taken, workspace, stream);
}

TEST(SelfTests, WhereNewerKernelsAreWrongTheFormerOnesRun) {
  KernelTable table;
  table.code_grams = wrong_plain_code_grams;
  table.wide_back_transform32 = wrong_wide_turn;
  table.deferred_band = wrong_deferred_band;
  table.values32 = [](const double* diagonal, const double* off_diagonal, std::int64_t n,
                      std::int64_t batch, ValueOrder order, double* values, int* failed,
                      cudaStream_t stream, std::int64_t rows) {
    ++wrong_calls;
    wrong_values32(diagonal, off_diagonal, n, batch, order, values, failed, stream, rows);
  };
  table.shared_chase32 = counted_wrong_shared_chase<float, float>;
  table.chase32 = [](float* bands, std::int64_t n, std::int64_t batch, const ChaseShape& shape,
                     double* diagonal, double* off_diagonal, cudaStream_t stream) {
    ++wrong_calls;
    slightly_wrong_chase32(bands, n, batch, shape, diagonal, off_diagonal, stream);
  };
  for (const bool is_slow : {false, true}) {
    emulated::set_compute_capability(is_slow ? 8 : 9, is_slow ? 9 : 0);
    CudaBackend backend(0, table, passed_trials([](const KernelTrial& trial) {
                          return is_newer_kernel(trial.kernel);
                        }));
    emulated::set_compute_capability(9, 0);
    backend.prepare({});
    const BackendInfo info = backend.info();
    EXPECT_EQ(info.notes.size(), 6U);
    for (const std::string& note : info.notes) {
      EXPECT_NE(note.find("the former kernel runs in its place"), std::string::npos) << note;
    }
    wrong_calls = 0;
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      const MatrixReport report = SmallMatrix{}.measured_by(backend, "auto", mode);
      EXPECT_NEAR(report.sigma[0], 4.0, 1e-5);
      EXPECT_NEAR(report.sigma[1], 3.0, 1e-5);
    }
    EXPECT_EQ(wrong_calls, 0) << is_slow;
  }
}

TEST(SelfTests, ABackEndWithAWrongKernelMeasuresByTheLibraryAndSaysSo) {
  KernelTable table;
  table.values = wrong_values;
  CudaBackend backend(0, table, {.order = kEmulatedTrialOrder});
  backend.prepare({});
  const BackendInfo info = backend.info();
  ASSERT_EQ(info.notes.size(), 1U);
  EXPECT_NE(info.notes[0].find("bisection failed its self-test"), std::string::npos);
  EXPECT_EQ(info.self_tests.size(), every_trial().size());
  EXPECT_EQ(std::count_if(info.self_tests.begin(), info.self_tests.end(),
                          [](const auto& test) { return !test.passed; }),
            1);
  const SmallMatrix small;
  const MatrixReport report = small.measured_by(backend, "auto");
  EXPECT_EQ(report.method, "gram64+trd64+cuda");
  EXPECT_NEAR(report.sigma[0], 4.0, 1e-14);
  EXPECT_NEAR(report.sigma[1], 3.0, 1e-14);
  EXPECT_THROW((void)small.measured_by(backend, "two-stage"), UsageError);
}

/// The judge against LAPACK and against a known spectrum.
TEST(HostReference, AgreesWithLapackAndWithWhatIsKnown) {
  constexpr std::int64_t kOrder = 61;
  constexpr std::int64_t kBatch = 3;
  std::vector<double> dense = dense_samples(kOrder, kBatch);
  const std::vector<double> got = reference_values(dense, kOrder, kBatch);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::vector<double> wanted(kOrder);
    const char job = 'N';
    const char triangle = 'L';
    const int order = kOrder;
    const int room = 64 * kOrder;
    std::vector<double> work(static_cast<std::size_t>(room));
    int info = 0;
    LAPACK_dsyev(&job, &triangle, &order, dense.data() + b * kOrder * kOrder, &order, wanted.data(),
                 work.data(), &room, &info);
    ASSERT_EQ(info, 0);
    for (std::int64_t k = 0; k < kOrder; ++k) {
      EXPECT_NEAR(got[static_cast<std::size_t>(b * kOrder + k)],
                  wanted[static_cast<std::size_t>(k)], 1e-13 * wanted.back());
    }
  }
  const std::vector<double> second =
      reference_tridiagonal_values(std::vector<double>(40, 2.0), std::vector<double>(39, -1.0));
  for (std::size_t k = 0; k < second.size(); ++k) {
    EXPECT_NEAR(second[k], 2.0 - 2.0 * std::cos(std::numbers::pi * double(k + 1) / 41.0), 1e-14);
  }
  EXPECT_EQ(reference_tridiagonal_values(std::vector<double>(3, 0.0), std::vector<double>(2, 0.0)),
            std::vector<double>(3, 0.0));
  // Diagonal blocks, and a zero row: reflections of nothing.
  EXPECT_EQ(reference_values(std::vector<double>{4, 0, 0, 0, 0, 0, 0, 0, 1}, 3, 1).size(), 3U);
  const std::vector<double> weights = {1, 2, 3, 4, 5, 6};  // 2 x 3
  EXPECT_EQ(reference_gram(weights, 2, 3, false), (std::vector<double>{14, 32, 32, 77}));
  EXPECT_EQ(reference_gram(weights, 2, 3, true),
            (std::vector<double>{17, 22, 27, 22, 29, 36, 27, 36, 45}));
}

}  // namespace
}  // namespace vindex::test::self_test_test
