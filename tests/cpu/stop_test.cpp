// How often the CPU back end looks for a stop. The linker leads every look here (--wrap), so that
// they are counted and the stop comes at a chosen one: no test depends on time.
#include "core/process/stop.hpp"

#include "backend/backend.hpp"
#include "blas/steps/steps.hpp"
#include "cpu/band/band_storage.hpp"
#include "cpu/band/simd_band_chase.hpp"
#include "cpu/band/simd_band_reduction.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/forward/cpu_forward.hpp"
#include "cpu/tridiagonal/simd_bisection.hpp"
#include "decode/encoding/encoded_matrix.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace vindex::cpu::stop_test {

std::atomic<std::int64_t> looks = 0;
std::int64_t stop_at = std::numeric_limits<std::int64_t>::max();  ///< number of the look

}  // namespace vindex::cpu::stop_test

extern "C" void __wrap__ZN6vindex16throw_if_stoppedERKSt10stop_token(
    const std::stop_token& /*stop*/) {
  using namespace vindex::cpu::stop_test;
  if (++looks == stop_at) {
    throw vindex::Stopped{};
  }
}

namespace vindex::cpu::stop_test {
namespace {

class StopTest : public ::testing::Test {
 protected:
  void SetUp() override { looks = 0; }
  void TearDown() override { stop_at = std::numeric_limits<std::int64_t>::max(); }
};

std::vector<float> weights(std::int64_t rows, std::int64_t cols) {
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * i % 7919)));
  }
  return out;
}

MatrixReport measured(const std::vector<float>& values, std::int64_t rows, std::int64_t cols,
                      const MeasureOptions& options) {
  const auto backend = make_cpu_backend(1);
  const auto input = make_memory_input(decode::float32_view(values.data(), rows, cols));
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  backend->measure(batch, options, 0, {&report, 1});
  return report;
}

// Between two looks lies a panel of kBand columns, 4 kBand n^2 flop: 3.3 Gflop at 7168.
TEST_F(StopTest, TheReductionLooksAtEveryPanel) {
  constexpr std::int64_t kOrder = 320;
  const std::vector<float> matrix = weights(kOrder, kOrder);
  std::vector<double> band(static_cast<std::size_t>(band_elements(kOrder)));
  std::vector<float> work(static_cast<std::size_t>(band_workspace_elements(kOrder)));
  reduce_to_band(matrix.data(), kOrder, kOrder, 1.0F, band, work, SimdLevel::kPortable);
  EXPECT_EQ(looks, kOrder / kBand);
  looks = 0;
  std::vector<double> d(kOrder), e(kOrder);
  chase_band(band, kOrder, d, e, SimdLevel::kPortable);
  EXPECT_GE(looks, kOrder / 8);
  looks = 0;
  std::vector<double> values(kOrder);
  tridiagonal_eigenvalues(d, e, values, SimdLevel::kPortable);
  EXPECT_GE(looks, 6);  // each is one evaluation of at most 2 n shifts, 8 n^2 flop
}

// Between two looks lies a product with the rest of the matrix, of a column of the bidiagonal form
// or of a panel of the others: at most 6.6 Gflop at 7168, or a panel of xSYTRD, bound by memory.
TEST_F(StopTest, DriversOfLapackLookAtEveryBlock) {
  constexpr std::int64_t kOrder = 300;
  const std::vector<float> values = weights(kOrder, kOrder);
  std::vector<double> start(values.begin(), values.end());
  for (std::int64_t i = 0; i < kOrder; ++i) {
    start[static_cast<std::size_t>(i * kOrder + i)] += kOrder;
  }
  std::vector<double> matrix = start;
  std::vector<double> other = start;
  std::vector<double> d(kOrder), e(kOrder), tau(kOrder), right(kOrder);
  std::vector<double> work(2 * kOrder * blas::steps::kBlock),
      reflectors(kOrder * blas::steps::kBlock);
  const blas::steps::Columns<double> a{matrix.data(), kOrder};
  const std::stop_token stop;
  const struct {
    const char* name;
    std::int64_t looks;
    std::function<void()> run;
  } drivers[] = {
      {"gebrd", 6 * (32 + 2) + 1,
       [&] {
         blas::steps::gebrd(kOrder, a, d.data(), e.data(), tau.data(), right.data(), work.data(),
                            stop);
       }},
      {"sytrd", 9 * 2 + 1,
       [&] { blas::steps::sytrd(kOrder, a, d.data(), e.data(), tau.data(), work.data(), stop); }},
      {"gelqf", 6 + 1,
       [&] { blas::steps::gelqf(kOrder, kOrder, a, tau.data(), work.data(), stop); }},
      {"geqrf", 6 + 1,
       [&] { blas::steps::geqrf(kOrder, kOrder, a, tau.data(), work.data(), stop); }},
      {"orgqr", 6 + 1,
       [&] { blas::steps::orgqr(kOrder, kOrder, a, tau.data(), work.data(), stop); }},
      {"tpqrt", 10,
       [&] {
         blas::steps::tpqrt(kOrder, kOrder, a, {other.data(), kOrder}, reflectors.data(),
                            work.data(), stop);
       }},
      {"potrf", 1 + 1, [&] { blas::steps::potrf(kOrder, a, stop, 0); }},
      {"gemm", 5,
       [&] {
         blas::steps::gemm(CblasNoTrans, CblasNoTrans, kOrder, kOrder, kOrder, start.data(),
                           start.data(), matrix.data(), stop, 1);
       }},
      {"trsm", 5,
       [&] {
         blas::steps::trsm(CblasLeft, CblasTrans, kOrder, kOrder, start.data(), matrix.data(), stop,
                           1);
       }},
  };
  for (const auto& driver : drivers) {
    matrix = start;
    looks = 0;
    driver.run();
    EXPECT_EQ(looks, driver.looks) << driver.name;
    for (const std::int64_t at : {std::int64_t{1}, driver.looks / 2, driver.looks}) {
      matrix = start;
      looks = 0;
      stop_at = at;
      EXPECT_THROW(driver.run(), Stopped) << driver.name << " at " << at;
    }
    stop_at = std::numeric_limits<std::int64_t>::max();
  }
}

// A chunk of the long side is 256 lines at most: 256 p^2 flop of a Gram, 13 Gflop at 7168.
TEST_F(StopTest, EveryPassLooksAtEveryChunk) {
  constexpr std::int64_t kRows = 1280;
  constexpr std::int64_t kCols = 160;
  const std::vector<float> values = weights(kRows, kCols);
  for (const char* const route : {"auto", "library", "qr"}) {
    const MeasureOptions options = {.mode = SpectrumMode::kStrict, .svd_route = route};
    looks = 0;
    (void)measured(values, kRows, kCols, options);
    EXPECT_GE(looks, kRows / 256) << route;
    // The last of them are of the eigenvalues or singular values.
    stop_at = looks - 1;
    looks = 0;
    EXPECT_THROW((void)measured(values, kRows, kCols, options), Stopped) << route;
    stop_at = std::numeric_limits<std::int64_t>::max();
  }
}

TEST_F(StopTest, AStopAtAnyLookEndsTheCallAndNothingRemembersIt) {
  constexpr std::int64_t kRows = 600;
  constexpr std::int64_t kCols = 144;
  const std::vector<float> values = weights(kRows, kCols);
  const MeasureOptions options = {.sign_flip_draws = 1, .vectors = 3};
  const MatrixReport whole = measured(values, kRows, kCols, options);
  const std::int64_t all = looks;
  ASSERT_GT(all, 50);
  for (std::int64_t at = 1; at <= all; at += 7) {
    looks = 0;
    stop_at = at;
    EXPECT_THROW((void)measured(values, kRows, kCols, options), Stopped) << at << " of " << all;
    stop_at = std::numeric_limits<std::int64_t>::max();
  }
  EXPECT_EQ(measured(values, kRows, kCols, options).sigma, whole.sigma);
}

// Between two looks lies a chunk of a product: 256 x 768 weights times 1024 tokens, 0.4 Gflop.
TEST_F(StopTest, ProductsOfAForwardPassLookAtEveryChunk) {
  constexpr std::int64_t kRows = 4096, kCols = 1536, kTokens = 20;
  const std::vector<float> values = weights(kRows, kCols);
  const std::vector<float> x = weights(kTokens, kCols);
  std::vector<float> y(kTokens * kRows);
  const auto weight = make_memory_input(decode::float32_view(values.data(), kRows, kCols));
  const auto backend = make_cpu_forward(1);
  const auto multiply = [&] {
    backend->linear({.x = x.data(),
                     .tokens = kTokens,
                     .x_stride = kCols,
                     .weight = weight.get(),
                     .count = kRows,
                     .y = y.data(),
                     .y_stride = kRows},
                    {});
  };
  multiply();
  EXPECT_EQ(looks, 1 + 16 * 2);
  for (const std::int64_t look : {1, 2, 20}) {
    looks = 0;
    stop_at = look;
    EXPECT_THROW(multiply(), Stopped);
    EXPECT_EQ(looks, look);
  }
}

// Between two looks lies a block of 128 rows and 512 keys: 0.03 Gflop at 128 components.
TEST_F(StopTest, AttentionLooksAtEveryBlock) {
  constexpr std::int64_t kTokens = 1300, kDim = 8;
  const std::vector<float> q = weights(kTokens, kDim);
  std::vector<float> out(kTokens * kDim);
  const auto backend = make_cpu_forward(1);
  const auto attend = [&] {
    backend->attention({.q = q.data(),
                        .k = q.data(),
                        .v = q.data(),
                        .out = out.data(),
                        .tokens = kTokens,
                        .heads = 1,
                        .kv_heads = 1,
                        .head_dim = kDim,
                        .value_dim = kDim},
                       {});
  };
  attend();
  EXPECT_EQ(looks, 1 + 4 * 1 + 4 * 2 + 3 * 3);
  looks = 0;
  stop_at = 9;
  EXPECT_THROW(attend(), Stopped);
  EXPECT_EQ(looks, 9);
}

}  // namespace
}  // namespace vindex::cpu::stop_test
