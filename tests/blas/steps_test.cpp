// Drivers of LAPACK in steps: the bits of the library's own calls, with the kernels of every core
// type that CMakeLists.txt names, and a stop that ends them. How often they look is counted in
// tests/cpu/stop_test.cpp.
#include "blas/steps/steps.hpp"

#include "blas/blas.hpp"
#include "blas/blas_core.hpp"
#include "blas/blas_library.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace vindex::blas::steps_test {
namespace {

using steps::Columns;
using steps::kBlock;

const std::stop_token never;

template <typename Real = double>
std::vector<Real> draws(std::int64_t count) {
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal;
  std::vector<Real> out(as_size(count));
  std::generate(out.begin(), out.end(), [&] { return static_cast<Real>(normal(generator)); });
  return out;
}

template <typename Real = double>
std::vector<Real> room(std::int64_t count) {
  return std::vector<Real>(as_size(std::max<std::int64_t>(count, 1)));
}

/// Orders below, at and above ends of blocks and crossovers.
constexpr std::int64_t kOrders[] = {1, 2, 31, 32, 33, 112, 127, 128, 129, 160, 161, 300};
constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {1, 1},     {2, 1},     {1, 33},    {33, 32},   {112, 97},  {300, 112}, {128, 128}, {129, 129},
    {160, 161}, {400, 161}, {161, 400}, {128, 300}, {300, 128}, {300, 129}, {300, 300}};

class StepsOfLapack : public ::testing::Test {
 protected:
  void SetUp() override {
    // It would die of an illegal instruction.
    const char* const core = std::getenv("OPENBLAS_CORETYPE");
    const std::string lacking(lacking_for_blas_core(core == nullptr ? "" : core, this_processor()));
    if (!lacking.empty()) {
      GTEST_SKIP() << core << " needs " << lacking;
    }
    RecordProperty("kernels", load_blas().kernels);
  }
};

TEST_F(StepsOfLapack, GebrdHasItsBits) {
  for (const std::int64_t n : kOrders) {
    const std::int64_t stride = n + 3;
    const std::vector<double> start = draws(stride * n);
    struct Result {
      std::vector<double> a, d, e, left, right, work;
    };
    Result ours{start, room(n), room(n), room(n), room(n), room(2 * n * kBlock)};
    Result whole = ours;
    steps::gebrd(n, {ours.a.data(), stride}, ours.d.data(), ours.e.data(), ours.left.data(),
                 ours.right.data(), ours.work.data(), never);
    const int order = as_int(n);
    const int lda = as_int(stride);
    const int size = as_int(std::ssize(whole.work));
    int info = 0;
    blas().LAPACK_dgebrd(&order, &order, whole.a.data(), &lda, whole.d.data(), whole.e.data(),
                         whole.left.data(), whole.right.data(), whole.work.data(), &size, &info);
    EXPECT_EQ(ours.d, whole.d) << n;
    EXPECT_EQ(ours.e, whole.e) << n;
    EXPECT_EQ(ours.left, whole.left) << n;
    EXPECT_EQ(ours.right, whole.right) << n;
    EXPECT_EQ(ours.a, whole.a) << n;
  }
}

template <typename Real, typename Whole>
void expect_tridiagonal_bits(const Whole& whole_call) {
  for (const std::int64_t n : kOrders) {
    const std::int64_t stride = n + 1;
    struct Result {
      std::vector<Real> a, d, e, tau, work;
    };
    Result ours{draws<Real>(stride * n), room<Real>(n), room<Real>(n), room<Real>(n),
                room<Real>(n * kBlock)};
    Result whole = ours;
    steps::sytrd(n, {ours.a.data(), stride}, ours.d.data(), ours.e.data(), ours.tau.data(),
                 ours.work.data(), never);
    const int order = as_int(n);
    const int lda = as_int(stride);
    const int size = as_int(std::ssize(whole.work));
    whole_call(&order, whole.a.data(), &lda, whole.d.data(), whole.e.data(), whole.tau.data(),
               whole.work.data(), &size);
    EXPECT_EQ(ours.d, whole.d) << n;
    EXPECT_EQ(ours.e, whole.e) << n;
    EXPECT_EQ(ours.tau, whole.tau) << n;
    EXPECT_EQ(ours.a, whole.a) << n;
  }
}

TEST_F(StepsOfLapack, SytrdHasItsBitsInBothPrecisions) {
  int info = 0;
  expect_tridiagonal_bits<double>(
      [&](const int* n, double* a, const int* lda, double* d, double* e, double* tau, double* work,
          const int* size) { blas().LAPACK_dsytrd("U", n, a, lda, d, e, tau, work, size, &info); });
  expect_tridiagonal_bits<float>(
      [&](const int* n, float* a, const int* lda, float* d, float* e, float* tau, float* work,
          const int* size) { blas().LAPACK_ssytrd("U", n, a, lda, d, e, tau, work, size, &info); });
}

TEST_F(StepsOfLapack, GeqrfGelqfAndOrgqrHaveTheirBits) {
  for (const auto& [m, n] : kShapes) {
    const std::int64_t stride = m + 2;
    const int rows = as_int(m);
    const int cols = as_int(n);
    const int lda = as_int(stride);
    struct Result {
      std::vector<double> a, tau, work;
    };
    const Result start{draws(stride * n), room(std::min(m, n)), room(std::max(m, n) * kBlock)};
    const int size = as_int(std::ssize(start.work));
    int info = 0;

    Result ours = start;
    Result whole = start;
    steps::gelqf(m, n, {ours.a.data(), stride}, ours.tau.data(), ours.work.data(), never);
    blas().LAPACK_dgelqf(&rows, &cols, whole.a.data(), &lda, whole.tau.data(), whole.work.data(),
                         &size, &info);
    EXPECT_EQ(ours.tau, whole.tau) << m << " x " << n;
    EXPECT_EQ(ours.a, whole.a) << m << " x " << n;

    ours = start;
    whole = start;
    steps::geqrf(m, n, {ours.a.data(), stride}, ours.tau.data(), ours.work.data(), never);
    blas().LAPACK_dgeqrf(&rows, &cols, whole.a.data(), &lda, whole.tau.data(), whole.work.data(),
                         &size, &info);
    EXPECT_EQ(ours.tau, whole.tau) << m << " x " << n;
    EXPECT_EQ(ours.a, whole.a) << m << " x " << n;

    if (n <= m) {
      steps::orgqr(m, n, {ours.a.data(), stride}, ours.tau.data(), ours.work.data(), never);
      blas().LAPACK_dorgqr(&rows, &cols, &cols, whole.a.data(), &lda, whole.tau.data(),
                           whole.work.data(), &size, &info);
      EXPECT_EQ(ours.a, whole.a) << m << " x " << n;
    }
  }
}

TEST_F(StepsOfLapack, TpqrtHasItsBits) {
  for (const std::int64_t m : {1, 40, 256}) {
    for (const std::int64_t n : {1, 31, 32, 33, 64, 161}) {
      const std::int64_t panel = std::min(n, kBlock);
      struct Result {
        std::vector<double> r, b, t, work;
      };
      Result ours{draws(n * n), draws(m * n), room(panel * n), room(panel * n)};
      Result whole = ours;
      steps::tpqrt(m, n, {ours.r.data(), n}, {ours.b.data(), m}, ours.t.data(), ours.work.data(),
                   never);
      const int rows = as_int(m);
      const int cols = as_int(n);
      const int nb = as_int(panel);
      const int no_triangle = 0;
      int info = 0;
      blas().LAPACK_dtpqrt(&rows, &cols, &no_triangle, &nb, whole.r.data(), &cols, whole.b.data(),
                           &rows, whole.t.data(), &nb, whole.work.data(), &info);
      EXPECT_EQ(ours.r, whole.r) << m << " x " << n;
      EXPECT_EQ(ours.b, whole.b) << m << " x " << n;
      EXPECT_EQ(ours.t, whole.t) << m << " x " << n;
    }
  }
}

/// Symmetric, positive definite, of condition below 10.
std::vector<double> definite(std::int64_t n) {
  std::vector<double> a = draws(n * n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      a[as_size(i * n + j)] = a[as_size(j * n + i)];
    }
    a[as_size(j * n + j)] += 4.0 * std::sqrt(static_cast<double>(n));
  }
  return a;
}

std::vector<double> library_factor(std::vector<double> a, std::int64_t n) {
  const int order = as_int(n);
  int info = 0;
  blas().LAPACK_dpotrf("U", &order, a.data(), &order, &info);
  EXPECT_EQ(info, 0);
  return a;
}

TEST_F(StepsOfLapack, PotrfHasItsBitsAsOneCallAndItsFactorInBlocks) {
  for (const std::int64_t n : {1, 33, 512, 513, 1100}) {
    const std::vector<double> start = definite(n);
    const std::vector<double> whole = library_factor(start, n);
    std::vector<double> one = start;
    EXPECT_TRUE(steps::potrf(n, {one.data(), n}, never));
    EXPECT_EQ(one, whole) << n;
    std::vector<double> blocks = start;
    EXPECT_TRUE(steps::potrf(n, {blocks.data(), n}, never, 0));
    double worst = 0.0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      worst = std::max(worst, std::fabs(blocks[i] - whole[i]));
    }
    EXPECT_LT(worst, 1e-12 * whole.front()) << n;
  }
}

TEST_F(StepsOfLapack, PotrfSaysWhichMatricesAreNotDefinite) {
  constexpr std::int64_t kOrder = 700;
  for (const std::int64_t at : {0, 511, 512, 699}) {
    std::vector<double> a = definite(kOrder);
    a[as_size(at * kOrder + at)] = -1.0;
    EXPECT_FALSE(steps::potrf(kOrder, {a.data(), kOrder}, never, 0)) << at;
  }
}

TEST_F(StepsOfLapack, SyevrHasItsBitsForAllVectorsAndFindsTheLargest) {
  // xORMTR turns up to kBlock reflectors one by one, where orders above kWholeEigenvectors have
  // more.
  for (const std::int64_t n : {1, 2, 34, 161}) {
    std::vector<double> start = definite(n);
    std::vector<int> integers(as_size(12 * n));
    std::vector<double> values = room(n);
    std::vector<double> work = room(steps::kSyevrWork * n + steps::kSyevrMore);
    std::vector<double> vectors = room(n * n);
    std::vector<double> ours = start;
    steps::syevr(n, {ours.data(), n}, n, values.data(), vectors.data(), work.data(),
                 integers.data(), never, 0);

    const int order = as_int(n);
    const int one = 1;
    const double zero = 0.0;
    std::vector<double> whole = start;
    std::vector<double> whole_values = room(n);
    std::vector<double> whole_vectors = room(n * n);
    std::vector<double> ample = room(40 * n + 8192);  // for blocks of kBlock throughout
    const int size = as_int(std::ssize(ample));
    const int integer_size = as_int(10 * n);
    int found = 0;
    int info = 0;
    blas().LAPACK_dsyevr("V", "I", "U", &order, whole.data(), &order, &zero, &zero, &one, &order,
                         &zero, &found, whole_values.data(), whole_vectors.data(), &order,
                         integers.data() + 10 * n, ample.data(), &size, integers.data(),
                         &integer_size, &info);
    EXPECT_EQ(values, whole_values) << n;
    if (n > 1) {
      EXPECT_EQ(vectors, whole_vectors) << n;
    }

    // A third of them: the same values, and vectors up to their sign.
    const std::int64_t count = ceil_divide(n, std::int64_t{3});
    for (const std::int64_t limit : {std::int64_t{0}, n}) {
      ours = start;
      steps::syevr(n, {ours.data(), n}, count, values.data(), vectors.data(), work.data(),
                   integers.data(), never, limit);
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t all = n - count + k;
        EXPECT_NEAR(values[as_size(k)], whole_values[as_size(all)], 1e-12) << n;
        double inner = 0.0;
        for (std::int64_t i = 0; i < n; ++i) {
          inner += vectors[as_size(k * n + i)] * whole_vectors[as_size(all * n + i)];
        }
        EXPECT_NEAR(std::fabs(inner), 1.0, 1e-9) << n << " " << k;
      }
    }
  }
}

/// The largest difference between two products or solutions.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::fabs(a[i] - b[i]));
  }
  return worst;
}

TEST_F(StepsOfLapack, APieceIsAllThatFitsInWholeSixtyFours) {
  EXPECT_EQ(steps::piece_of(100, 10.0, 1000), 100);
  EXPECT_EQ(steps::piece_of(100, 10.0, 999), 64);
  EXPECT_EQ(steps::piece_of(1000, 10.0, 2000), 192);
  EXPECT_EQ(steps::piece_of(1000, 1e18, 1), 64);
  EXPECT_EQ(steps::piece_of(50, 1e18, 1), 64);
}

TEST_F(StepsOfLapack, ProductsInPiecesAreTheProduct) {
  constexpr std::int64_t kRows = 150;
  constexpr std::int64_t kCols = 40;
  constexpr std::int64_t kDepth = 30;
  const std::vector<double> a = draws(kRows * kDepth);
  const std::vector<double> b = draws(kDepth * kCols);
  for (const CBLAS_TRANSPOSE turn_a : {CblasNoTrans, CblasTrans}) {
    for (const CBLAS_TRANSPOSE turn_b : {CblasNoTrans, CblasTrans}) {
      std::vector<double> expected(as_size(kRows * kCols));
      for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < kCols; ++j) {
          for (std::int64_t k = 0; k < kDepth; ++k) {
            expected[as_size(i * kCols + j)] +=
                a[as_size(turn_a == CblasTrans ? k * kRows + i : i * kDepth + k)] *
                b[as_size(turn_b == CblasTrans ? j * kDepth + k : k * kCols + j)];
          }
        }
      }
      for (const std::int64_t whole : {std::int64_t{1}, steps::kWholeProduct}) {
        std::vector<double> c(expected.size(), 9.0);
        steps::gemm(turn_a, turn_b, kRows, kCols, kDepth, a.data(), b.data(), c.data(), never,
                    whole);
        EXPECT_LT(difference(c, expected), 1e-12) << turn_a << turn_b << whole;
      }
    }
  }
}

TEST_F(StepsOfLapack, SolvesInPiecesAreTheSolution) {
  constexpr std::int64_t kRows = 150;
  constexpr std::int64_t kCols = 170;
  for (const CBLAS_SIDE side : {CblasLeft, CblasRight}) {
    const std::int64_t order = side == CblasLeft ? kRows : kCols;
    const std::vector<double> triangle = definite(order);
    for (const CBLAS_TRANSPOSE turn : {CblasNoTrans, CblasTrans}) {
      const std::vector<double> start = draws(kRows * kCols);
      std::vector<double> whole = start;
      std::vector<double> pieces = start;
      steps::trsm(side, turn, kRows, kCols, triangle.data(), whole.data(), never);
      steps::trsm(side, turn, kRows, kCols, triangle.data(), pieces.data(), never, 1);
      EXPECT_LT(difference(pieces, whole), 1e-13) << side << turn;
      // L X or X L, by the library's own product with a triangle, is B again.
      blas().cblas_dtrmm(CblasRowMajor, side, CblasLower, turn, CblasNonUnit, as_int(kRows),
                         as_int(kCols), 1.0, triangle.data(), as_int(order), pieces.data(),
                         as_int(kCols));
      EXPECT_LT(difference(pieces, start), 1e-12) << side << turn;
    }
  }
}

TEST_F(StepsOfLapack, AStopThatWasAskedForEndsEach) {
  std::stop_source source;
  source.request_stop();
  const std::stop_token stop = source.get_token();
  constexpr std::int64_t kOrder = 20;
  const std::vector<double> start = definite(kOrder);
  std::vector<double> matrix = start;
  std::vector<double> other = start;
  std::vector<double> d(kOrder), e(kOrder), tau(kOrder), right(kOrder);
  std::vector<double> work(2 * kOrder * kBlock), reflectors(kOrder * kBlock);
  std::vector<int> integers(12 * kOrder);
  const Columns<double> a{matrix.data(), kOrder};
  const std::vector<std::function<void()>> calls = {
      [&] {
        steps::gebrd(kOrder, a, d.data(), e.data(), tau.data(), right.data(), work.data(), stop);
      },
      [&] { steps::sytrd(kOrder, a, d.data(), e.data(), tau.data(), work.data(), stop); },
      [&] { steps::geqrf(kOrder, kOrder, a, tau.data(), work.data(), stop); },
      [&] { steps::gelqf(kOrder, kOrder, a, tau.data(), work.data(), stop); },
      [&] { steps::orgqr(kOrder, kOrder, a, tau.data(), work.data(), stop); },
      [&] {
        steps::tpqrt(kOrder, kOrder, a, {other.data(), kOrder}, reflectors.data(), work.data(),
                     stop);
      },
      [&] { steps::potrf(kOrder, a, stop); },
      [&] {
        steps::syevr(kOrder, a, kOrder, d.data(), other.data(), work.data(), integers.data(), stop);
      },
      [&] {
        steps::gemm(CblasNoTrans, CblasNoTrans, kOrder, kOrder, kOrder, start.data(), start.data(),
                    matrix.data(), stop);
      },
      [&] {
        steps::trsm(CblasLeft, CblasTrans, kOrder, kOrder, start.data(), matrix.data(), stop);
      },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_THROW(calls[i](), Stopped) << i;
    EXPECT_EQ(matrix, start) << i;
  }
}

}  // namespace
}  // namespace vindex::blas::steps_test
