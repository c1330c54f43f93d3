// The top of a spectrum: values against LAPACK, bounds that hold and are tight, vectors that are
// vectors. Weights go in as the back end hands them over: float32 Grams, then float64 slabs.
#include "kernels/top/top_solvers.hpp"

#include "tests/kernels/kernel_fixture.hpp"
#include "tests/support/known_spectra.hpp"

#include <cmath>
#include <deque>

namespace vindex::test::top_solvers_test {
namespace {

using kernels::FastMatrix;
using kernels::FastSolver;
using kernels::FastValues;
using kernels::GramView;
using kernels::VectorSolver;

// W^T W over the short side in float64, both triangles.
std::vector<double> gram_of(const FloatMatrix& matrix) {
  const bool tall = matrix.rows >= matrix.cols;
  const std::int64_t p = std::min(matrix.rows, matrix.cols);
  const std::int64_t n = std::max(matrix.rows, matrix.cols);
  std::vector<double> long_rows(static_cast<std::size_t>(n * p));
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < p; ++i) {
      long_rows[static_cast<std::size_t>(k * p + i)] = tall ? matrix.at(k, i) : matrix.at(i, k);
    }
  }
  std::vector<double> gram(static_cast<std::size_t>(p * p), 0.0);
  for (std::int64_t k = 0; k < n; ++k) {
    const double* row = long_rows.data() + k * p;
    for (std::int64_t j = 0; j < p; ++j) {
      double* column = gram.data() + j * p;
      for (std::int64_t i = 0; i < p; ++i) {
        column[i] += row[i] * row[j];
      }
    }
  }
  return gram;
}

double sum_squares_of(const FloatMatrix& matrix) {
  double sum = 0.0;
  for (const float value : matrix.values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

class TopSolvers : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    blas_ = kernels::make_blas(stream());
    solver_ = kernels::make_solver(stream());
    parameters_ = kernels::make_solver_parameters();
    handles_ = {stream(), blas_.get(), solver_.get(), parameters_.get()};
  }

  /// Slabs of 100 of the long side.
  template <typename Solver>
  void add_all(Solver& solver, std::int64_t index, const FloatMatrix& matrix) {
    const bool tall = matrix.rows >= matrix.cols;
    const std::int64_t p = std::min(matrix.rows, matrix.cols);
    const std::int64_t n = std::max(matrix.rows, matrix.cols);
    for (std::int64_t first = 0; first < n; first += 100) {
      const std::int64_t length = std::min<std::int64_t>(100, n - first);
      std::vector<double> slab;
      for (std::int64_t r = 0; r < (tall ? length : p); ++r) {
        for (std::int64_t c = 0; c < (tall ? p : length); ++c) {
          slab.push_back(tall ? matrix.at(first + r, c) : matrix.at(r, first + c));
        }
      }
      DeviceArray<double> device(slab);
      solver.add(handles_, index, {device.data(), tall, first, length});
      kernels::check(cudaStreamSynchronize(stream()));
    }
  }

  /// All matrices of one shape. The Gram in memory is W^T W / 4.
  std::vector<FastValues> fast(const std::vector<FloatMatrix>& matrices, bool certify = true) {
    const std::int64_t p = std::min(matrices[0].rows, matrices[0].cols);
    const std::int64_t n = std::max(matrices[0].rows, matrices[0].cols);
    const std::int64_t leading = (p + 31) / 32 * 32;
    std::deque<DeviceArray<float>> grams;
    std::vector<FastMatrix> batch;
    for (const FloatMatrix& matrix : matrices) {
      const std::vector<double> gram = gram_of(matrix);
      std::vector<float> padded(static_cast<std::size_t>(leading * leading), 0.0F);
      double norm = 0.0;
      for (std::int64_t j = 0; j < p; ++j) {
        for (std::int64_t i = 0; i < p; ++i) {
          const double value = gram[static_cast<std::size_t>(j * p + i)];
          padded[static_cast<std::size_t>(j * leading + i)] = static_cast<float>(value / 4);
          norm += value * value;
        }
      }
      norm = std::sqrt(norm);
      const double sum = sum_squares_of(matrix);
      grams.emplace_back(padded);
      batch.push_back({.gram = {grams.back().data(), leading, sum / 4, norm / 4},
                       .gram_scale = 4.0,
                       .gram_error = kernels::rounded_gram_error_bound(n, sum, norm),
                       .sum_squares = sum});
    }
    FastSolver solver;
    solver.search(handles_, batch, p, n);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      add_all(solver, static_cast<std::int64_t>(i), matrices[i]);
    }
    // Room for two matrices to be factored at once.
    return solver.finish(handles_, certify, static_cast<std::uint64_t>(p * (p + 112)) * 16);
  }

  void expect_good(const FloatMatrix& matrix, const FastValues& got) {
    const std::vector<double> reference = reference_singular_values(matrix);
    ASSERT_TRUE(got.converged);
    ASSERT_EQ(got.sigma.size(), 64U);
    const double total = sum_squares_of(matrix);
    EXPECT_TRUE(statistics::is_tight(got.bounds));
    double exact = 0.0;
    double computed = 0.0;
    std::size_t summed = 0;
    for (std::size_t i = 0; i < statistics::bounded_count(); ++i) {
      for (; summed < static_cast<std::size_t>(statistics::bounded_k(i)); ++summed) {
        exact += reference[summed] * reference[summed] / total;
        computed += got.sigma[summed] * got.sigma[summed] / total;
      }
      EXPECT_NEAR(computed, exact, 3e-6);
      EXPECT_LE(got.bounds.var_at_k_lower[i], exact + 1e-13);
      EXPECT_GE(got.bounds.var_at_k_upper[i], exact - 1e-13);
    }
    const double stable_rank = total / (reference[0] * reference[0]);
    EXPECT_LE(got.bounds.stable_rank_lower, stable_rank * (1 + 1e-13));
    EXPECT_GE(got.bounds.stable_rank_upper, stable_rank * (1 - 1e-13));
  }

  kernels::BlasHandle blas_;
  kernels::SolverHandle solver_;
  kernels::SolverParameters parameters_;
  kernels::LibraryHandles handles_;
};

TEST_P(TopSolvers, FastBoundsHoldAndAreTight) {
  if (GetParam() > 1) {
    GTEST_SKIP() << "two thread orders are enough for a long test";
  }
  std::vector<double> steep(530);
  for (std::size_t i = 0; i < steep.size(); ++i) {
    steep[i] = 1.0 / (1.0 + static_cast<double>(i));
  }
  std::vector<double> low_rank(530, 0.0);
  std::fill(low_rank.begin(), low_rank.begin() + 20, 1.0);
  const std::vector<FloatMatrix> matrices = {
      gaussian_matrix(600, 530, 1), matrix_with_spectrum(600, 530, steep, 3),
      spiked_matrix(600, 530, 8, 3.0, 4), matrix_with_spectrum(600, 530, low_rank, 5)};
  const std::vector<FastValues> got = fast(matrices);
  for (std::size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    expect_good(matrices[i], got[i]);
  }
  // Rank 20 has no gap behind its 64th value: values, and no proof.
  ASSERT_TRUE(got[3].converged);
  EXPECT_NEAR(got[3].sigma[19], 1.0, 1e-6);
  EXPECT_NEAR(got[3].sigma[20], 0.0, 1e-3);
  EXPECT_FALSE(statistics::is_tight(got[3].bounds));
  // A matrix that needs fewer rounds than its neighbours has the values it has alone, as far as
  // products in tf32 and float32 go that a library may add in another order for another batch: on
  // an H100 8e-9 of the largest.
  const std::vector<FastValues> alone = fast({matrices[1]}, false);
  EXPECT_EQ(alone[0].rounds, got[1].rounds);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(alone[0].sigma[i], got[1].sigma[i], 1e-7 * got[1].sigma[0]);
  }
  EXPECT_TRUE(std::isnan(alone[0].bounds.var_at_k_lower[0]));
}

TEST_P(TopSolvers, FastTakesWideMatrices) {
  const FloatMatrix matrix = gaussian_matrix(515, 700, 2);
  expect_good(matrix, fast({matrix})[0]);
}

// Were the claimed error of the Gram or the next value too small, the factorisation must notice.
TEST_P(TopSolvers, NothingIsProvedWhereASubspaceMissesAValue) {
  std::vector<double> values(530, 0.1);
  std::fill(values.begin(), values.begin() + 70, 1.0);
  const FloatMatrix matrix = matrix_with_spectrum(600, 530, values, 6);
  const std::int64_t p = 530;
  const std::vector<double> gram = gram_of(matrix);
  DeviceArray<float> device(std::vector<float>(gram.begin(), gram.end()));
  // A basis that leaves out one of the 70 large directions: the first 112 unit vectors turned.
  kernels::WeightProjection projection;
  std::vector<float> start(static_cast<std::size_t>(p * 112), 0.0F);
  for (std::int64_t j = 0; j < 112; ++j) {
    start[static_cast<std::size_t>(j * p + j)] = 1.0F;
  }
  DeviceArray<float> columns(start);
  const float* const pointers[] = {columns.data()};
  projection.start(handles_, {p, 600, 112, 1, false}, pointers);
  add_all(projection, 0, matrix);
  projection.finish(handles_);
  kernels::BoundProver prover;
  const kernels::BoundClaim claim = {.matrix = 0,
                                     .gram = {device.data(), p, 0.0, 0.0},
                                     .gram_scale = 1.0,
                                     .next_value = 0.0,
                                     .gram_error = 0.0,
                                     .sum_squares = sum_squares_of(matrix)};
  const auto bounds = prover.prove(handles_, projection, std::span(&claim, 1), 1U << 20U);
  EXPECT_TRUE(std::isnan(bounds[0].var_at_k_upper[0]));
}

TEST_P(TopSolvers, ASlabOfSeveralMatricesIsASlabOfEach) {
  constexpr std::int64_t kShort = 90;
  constexpr std::int64_t kLong = 150;
  constexpr std::int64_t kColumns = 12;
  std::vector<float> start(static_cast<std::size_t>(kShort * kColumns), 0.0F);
  for (std::int64_t j = 0; j < kColumns; ++j) {
    start[static_cast<std::size_t>(j * kShort + j)] = 1.0F;
  }
  DeviceArray<float> columns(start);
  const float* const pointers[] = {columns.data(), columns.data(), columns.data()};
  for (const bool tall : {true, false}) {
    std::vector<FloatMatrix> matrices;
    std::vector<double> all;
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
      matrices.push_back(gaussian_matrix(tall ? kLong : kShort, tall ? kShort : kLong, seed));
      all.insert(all.end(), matrices.back().values.begin(), matrices.back().values.end());
    }
    DeviceArray<double> weights(all);
    kernels::WeightProjection alone;
    kernels::WeightProjection together;
    for (kernels::WeightProjection* projection : {&alone, &together}) {
      projection->start(handles_, {kShort, kLong, kColumns, 3, false}, pointers);
    }
    for (std::int64_t i = 0; i < 3; ++i) {
      alone.add(handles_, i, {weights.data() + i * kShort * kLong, tall, 0, kLong});
    }
    together.add(handles_, 0, {weights.data(), tall, 0, kLong, 1});
    together.add(handles_, 1, {weights.data() + kShort * kLong, tall, 0, kLong, 2, kShort * kLong});
    alone.finish(handles_);
    together.finish(handles_);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(together.is_sound(i));
      for (std::size_t k = 0; k < static_cast<std::size_t>(kColumns); ++k) {
        EXPECT_NEAR(together.values(i)[k], alone.values(i)[k], 1e-13 * alone.values(i)[0]);
      }
    }
    EXPECT_GT(std::abs(together.values(0)[0] - together.values(1)[0]), 1e-6) << "two matrices";
  }
}

TEST_P(TopSolvers, VectorsAreTripletsByEitherWay) {
  std::vector<double> values(530);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i));
  }
  const FloatMatrix matrix = matrix_with_spectrum(600, 530, values, 2);
  constexpr std::int64_t kColumns = 9;
  const std::vector<double> gram = gram_of(matrix);
  double norm = 0.0;
  for (const double value : gram) {
    norm += value * value;
  }
  DeviceArray<float> narrow(std::vector<float>(gram.begin(), gram.end()));
  DeviceArray<double> wide(gram);
  for (const bool dense : {false, true}) {
    VectorSolver solver;
    if (dense) {
      solver.solve(handles_, wide.data(), 1, 530, 600, kColumns);
    } else {
      const GramView view = {narrow.data(), 530, sum_squares_of(matrix), std::sqrt(norm)};
      solver.search(handles_, std::span(&view, 1), 530, 600, kColumns);
    }
    add_all(solver, 0, matrix);
    solver.finish(handles_);
    const SingularVectors got = solver.triplets(handles_, 0, 8, true, sum_squares_of(matrix));
    ASSERT_EQ(got.count, 8);
    for (std::size_t k = 0; k < 8; ++k) {
      EXPECT_NEAR(got.sigma[k], values[k], 1e-6);
      EXPECT_LE(got.residual[k], 2e-6);
      double forward = 0.0;
      for (std::int64_t r = 0; r < 600; ++r) {
        double sum = 0.0;
        for (std::int64_t c = 0; c < 530; ++c) {
          sum += static_cast<double>(matrix.at(r, c)) *
                 static_cast<double>(got.right[k * 530 + static_cast<std::size_t>(c)]);
        }
        forward +=
            std::pow(sum - got.sigma[k] *
                               static_cast<double>(got.left[k * 600 + static_cast<std::size_t>(r)]),
                     2.0);
      }
      EXPECT_LE(std::sqrt(forward), 1e-6);
    }
  }
}

INSTANTIATE_THREAD_ORDERS(TopSolvers);

}  // namespace
}  // namespace vindex::test::top_solvers_test
