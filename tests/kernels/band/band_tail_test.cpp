// What a tail is made of: the factor that a reduction keeps, its products with columns, solves with
// bands, and the norm of the passes, against plain float64 arithmetic on the host.
#include "kernels/band/back_transform/band_back_transform.hpp"
#include "kernels/band/back_transform/wide_back_transform.hpp"
#include "kernels/band/band_batch.hpp"
#include "kernels/band/band_norm.hpp"
#include "kernels/band/inverse/band_inverse.hpp"
#include "kernels/band/reduction/band_reduction.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/symmetric_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>

namespace vindex::test::band_tail_test {
namespace {

using namespace kernels;

constexpr std::size_t kShared = 128U << 10U;

std::vector<double> random_columns(std::size_t count, unsigned seed) {
  std::mt19937 words(seed);
  std::vector<double> out(count);
  for (double& value : out) {
    value = static_cast<double>(words()) * 0x1p-31 - 1.0;
  }
  return out;
}

/// Reduced on the device with its factor kept.
template <typename Real>
struct Reduced {
  Reduced(const std::vector<SymmetricMatrix>& from, cudaStream_t stream)
      : order(band_order(from.front().order)),
        plan(plan_band_reduction<Real>(order, BandRoute::kPlain, kShared)),
        matrices(padded(from, order)),
        bands(from.size() * static_cast<std::size_t>(band_elements(order))),
        exponents(from.size()),
        workspace(from.size() * plan.workspace_bytes_per_matrix) {
    reduce_to_band(plan,
                   BandBatch<Real>{matrices.data(), static_cast<std::int64_t>(from.size()),
                                   bands.data(), exponents.data(), workspace.data(), true},
                   stream);
  }
  static std::vector<Real> padded(const std::vector<SymmetricMatrix>& from, std::int64_t order) {
    std::vector<Real> out;
    for (const SymmetricMatrix& matrix : from) {
      const std::vector<Real> one = matrix.padded<Real>(order);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  std::int64_t order;
  BandPlan plan;
  DeviceArray<Real> matrices, bands;
  DeviceArray<std::int32_t> exponents;
  DeviceArray<std::byte> workspace;
};

/// y += B x, B a band of one matrix.
template <typename Real>
std::vector<double> times_band(const std::vector<Real>& bands, std::int64_t order,
                               std::int64_t which, const double* x) {
  std::vector<double> y(static_cast<std::size_t>(order), 0.0);
  const Real* band = bands.data() + which * band_elements(order);
  for (std::int64_t j = 0; j < order; ++j) {
    for (std::int64_t i = j; i < std::min(order, j + kBand + 1); ++i) {
      const auto value = static_cast<double>(band[band_index(i, j)]);
      y[static_cast<std::size_t>(i)] += value * x[j];
      if (i != j) {
        y[static_cast<std::size_t>(j)] += value * x[i];
      }
    }
  }
  return y;
}

class BandTail : public KernelTest {
 protected:
  /// A x against 2^exponent Q (B (Q^T x)), in units of the norm of A, for columns of two matrices.
  /// `warps`: of wide_back_transform(), 0: back_transform().
  template <typename Real>
  double error_of_factor(std::int64_t n, std::int64_t columns, int warps = 0) {
    const std::vector<SymmetricMatrix> from = {gram_of_noise(n, 3), gram_of_noise(n, 4)};
    Reduced<Real> reduced(from, stream());
    const std::int64_t order = reduced.order;
    const std::vector<std::int64_t> which = {1, 0};
    const std::vector<double> x = random_columns(static_cast<std::size_t>(2 * n * columns), 9);
    DeviceArray<std::int64_t> slots(which);
    DeviceArray<double> outer(x);
    DeviceArray<double> inner(static_cast<std::size_t>(2 * order * columns));
    DeviceArray<Real> scratch(static_cast<std::size_t>(wide_transform_scratch(order, columns, 2)));
    BackTransform<Real> turn = {.matrices = reduced.matrices.data(),
                                .which = slots.data(),
                                .order = order,
                                .columns = columns,
                                .slots = 2,
                                .transposed = true,
                                .from = {outer.data(), n, n * columns, n},
                                .to = {inner.data(), order, order * columns, order},
                                .scratch = scratch.data()};
    run<Real>(turn, warps);
    const std::vector<Real> bands = reduced.bands.values();
    const std::vector<double> turned = inner.values();
    std::vector<double> product;
    for (std::int64_t i = 0; i < 2 * columns; ++i) {
      const auto one = times_band(bands, order, which[static_cast<std::size_t>(i / columns)],
                                  turned.data() + i * order);
      product.insert(product.end(), one.begin(), one.end());
    }
    check(cudaMemcpy(inner.data(), product.data(), product.size() * sizeof(double),
                     cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
    std::swap(turn.from, turn.to);
    turn.transposed = false;
    run<Real>(turn, warps);
    const std::vector<double> got = outer.values();
    const std::vector<std::int32_t> exponents = reduced.exponents.values();
    double worst = 0.0;
    for (std::int64_t i = 0; i < 2 * columns; ++i) {
      const auto matrix = static_cast<std::size_t>(which[static_cast<std::size_t>(i / columns)]);
      const double* column = x.data() + i * n;
      double error = 0.0;
      double norm = 0.0;
      for (std::int64_t row = 0; row < n; ++row) {
        double wanted = 0.0;
        for (std::int64_t k = 0; k < n; ++k) {
          wanted += from[matrix].at(row, k) * column[k];
        }
        const double value =
            std::ldexp(got[static_cast<std::size_t>(i * n + row)], exponents[matrix]);
        error += (value - wanted) * (value - wanted);
        norm += column[row] * column[row];
      }
      const std::vector<double> values = eigenvalues_of(from[matrix]);
      const double largest = std::max(std::abs(values.front()), std::abs(values.back()));
      worst = std::max(worst, std::sqrt(error / norm) / largest);
    }
    return worst;
  }

  template <typename Real>
  void run(const BackTransform<Real>& turn, int warps) {
    if constexpr (std::is_same_v<Real, float>) {
      if (warps > 0) {
        wide_back_transform(turn, warps, stream());
        return;
      }
    }
    back_transform(turn, stream());
  }

  /// Panels of small numbers in the place of a kept factor: V has columns of a norm near 1, T is of
  /// any kind, so that the product is of no orthogonal matrix but is one all the same.
  static std::vector<float> panels_of_noise(std::int64_t order, unsigned seed) {
    const std::vector<double> noise = random_columns(static_cast<std::size_t>(order * order), seed);
    std::vector<float> out(noise.size(), 0.0F);
    for (std::int64_t row = 0; row < order; ++row) {
      for (std::int64_t column = 0; column < order; ++column) {
        const std::int64_t below = order - column / kBand * kBand - kBand;
        const bool is_of_t = row / kBand == column / kBand;
        const double size = is_of_t ? 0.02 : 1.0 / std::sqrt(static_cast<double>(below + 1));
        const auto at = static_cast<std::size_t>(row * order + column);
        out[at] = row / kBand < column / kBand ? NAN : static_cast<float>(size * noise[at]);
      }
    }
    return out;
  }

  static SymmetricMatrix gram_of_noise(std::int64_t n, unsigned seed) {
    SymmetricMatrix out(n);
    const std::vector<double> w = random_columns(static_cast<std::size_t>(2 * n * n), seed);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < 2 * n; ++k) {
          sum += w[static_cast<std::size_t>(k * n + i)] * w[static_cast<std::size_t>(k * n + j)];
        }
        out.at(i, j) = sum;
      }
    }
    return out;
  }
};

TEST_P(BandTail, TheFactorThatIsKeptLeadsBack) {
  for (const std::int64_t n : {32, 64, 75, 130}) {
    EXPECT_LE(error_of_factor<float>(n, 16), 2e-6) << n;
    EXPECT_LE(error_of_factor<double>(n, 8), 4e-15) << n;
  }
}

TEST_P(BandTail, ManyColumnsAtATimeLeadBackAsWell) {
  for (const std::int64_t n : {32, 75, 300}) {
    for (const int warps : {4, 8}) {
      EXPECT_LE(error_of_factor<float>(n, 40, warps), 2e-6) << n << " by " << warps;
    }
  }
}

/// Of one matrix against float64 on the host, both ways; columns of any size, and of nothing.
TEST_P(BandTail, ManyColumnsAtATimeAreThoseOfThePanels) {
  constexpr std::int64_t kOrder = 608;  // 19 tiles: more than two for a warp, and not as many each
  constexpr std::int64_t kRows = 601;
  constexpr std::int64_t kColumns = 37;
  const std::vector<float> panels = panels_of_noise(kOrder, 13);
  std::vector<double> x = random_columns(static_cast<std::size_t>(kColumns * kRows), 14);
  std::vector<double> sizes(kColumns, 1.0);
  sizes[3] = 0.0;
  sizes[5] = 1e-30;
  sizes[36] = 1e60;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] *= sizes[i / kRows];
  }
  for (const bool transposed : {false, true}) {
    std::vector<double> wanted(static_cast<std::size_t>(kColumns * kOrder), 0.0);
    for (std::int64_t c = 0; c < kColumns; ++c) {
      double* z = wanted.data() + c * kOrder;
      std::copy_n(x.begin() + c * kRows, kRows, z);
      const std::int64_t count = kOrder / kBand - 1;
      for (std::int64_t step = 0; step < count; ++step) {
        const std::int64_t start = (transposed ? step : count - 1 - step) * kBand;
        double sums[kBand] = {};
        double turned[kBand] = {};
        for (std::int64_t row = start + kBand; row < kOrder; ++row) {
          for (std::int64_t j = 0; j < kBand; ++j) {
            sums[j] +=
                static_cast<double>(panels[static_cast<std::size_t>(row * kOrder + start + j)]) *
                z[row];
          }
        }
        for (std::int64_t i = 0; i < kBand; ++i) {
          for (std::int64_t j = 0; j < kBand; ++j) {
            const std::int64_t at =
                transposed ? (start + j) * kOrder + start + i : (start + i) * kOrder + start + j;
            turned[i] += static_cast<double>(panels[static_cast<std::size_t>(at)]) * sums[j];
          }
        }
        for (std::int64_t row = start + kBand; row < kOrder; ++row) {
          for (std::int64_t j = 0; j < kBand; ++j) {
            z[row] -=
                static_cast<double>(panels[static_cast<std::size_t>(row * kOrder + start + j)]) *
                turned[j];
          }
        }
      }
    }
    DeviceArray<float> matrices(panels);
    DeviceArray<std::int64_t> which(std::vector<std::int64_t>{0});
    DeviceArray<double> from(x);
    DeviceArray<double> to(static_cast<std::size_t>(kColumns * kOrder));
    DeviceArray<float> scratch(
        static_cast<std::size_t>(wide_transform_scratch(kOrder, kColumns, 1)));
    std::vector<double> got;
    for (const int warps : {4, 8}) {
      wide_back_transform({.matrices = matrices.data(),
                           .which = which.data(),
                           .order = kOrder,
                           .columns = kColumns,
                           .slots = 1,
                           .transposed = transposed,
                           .from = {from.data(), kRows, kRows * kColumns, kRows},
                           .to = {to.data(), kOrder, kOrder * kColumns, kOrder},
                           .scratch = scratch.data()},
                          warps, stream());
      got = to.values();
      for (std::int64_t c = 0; c < kColumns; ++c) {
        double error = 0.0;
        double norm = 0.0;
        for (std::int64_t row = 0; row < kOrder; ++row) {
          const auto at = static_cast<std::size_t>(c * kOrder + row);
          error = std::max(error, std::abs(got[at] - wanted[at]));
          norm = std::max(norm, std::abs(wanted[at]));
        }
        EXPECT_LE(error, 2e-6 * norm) << c << " by " << warps;
      }
    }
  }
}

TEST_P(BandTail, SolvesUndoProductsWithTheBandAndItsShift) {
  constexpr std::int64_t kN = 75;
  constexpr std::int64_t kColumns = 8;
  constexpr double kShift = 1e-3;
  Reduced<float> reduced({gram_of_noise(kN, 5), gram_of_noise(kN, 6)}, stream());
  const std::int64_t order = reduced.order;
  const std::vector<std::int64_t> which = {1, 0, 1};
  const std::vector<double> shifts = {kShift, kShift, -1e3};  // the last never is definite
  DeviceArray<std::int64_t> slots(which);
  DeviceArray<double> device_shifts(shifts);
  DeviceArray<double> factors(static_cast<std::size_t>(3 * band_factor_elements(order)));
  DeviceArray<int> info(3);
  factor_bands<float>({reduced.bands.data(), slots.data(), kN, order, 3}, device_shifts.data(),
                      factors.data(), info.data(), stream());
  EXPECT_EQ(info.values(), (std::vector<int>{0, 0, 1}));

  const std::int64_t leading = order + 3;
  std::vector<double> x(static_cast<std::size_t>(2 * kColumns * leading), 7.0);
  const std::vector<double> wanted =
      random_columns(static_cast<std::size_t>(2 * kColumns * kN), 11);
  const std::vector<float> bands = reduced.bands.values();
  for (std::int64_t i = 0; i < 2 * kColumns; ++i) {
    std::vector<double> column(static_cast<std::size_t>(order), 0.0);
    std::copy_n(wanted.begin() + i * kN, kN, column.begin());
    const auto product =
        times_band(bands, order, which[static_cast<std::size_t>(i / kColumns)], column.data());
    for (std::int64_t row = 0; row < order; ++row) {
      const auto at = static_cast<std::size_t>(row);
      x[static_cast<std::size_t>(i * leading + row)] = product[at] + kShift * column[at];
    }
  }
  DeviceArray<double> columns(x);
  solve_bands(factors.data(), order, 2, columns.data(), leading, leading * kColumns, kColumns,
              stream());
  const std::vector<double> got = columns.values();
  for (std::int64_t i = 0; i < 2 * kColumns; ++i) {
    for (std::int64_t row = 0; row < leading; ++row) {
      const double value = got[static_cast<std::size_t>(i * leading + row)];
      const double truth = row < kN      ? wanted[static_cast<std::size_t>(i * kN + row)]
                           : row < order ? 0.0
                                         : 7.0;
      EXPECT_NEAR(value, truth, 1e-11) << i << " " << row;
    }
  }
}

TEST_P(BandTail, AShiftThatIsTooSmallGrows) {
  // A diagonal band with one eigenvalue below 0: -1e-3 needs a second try from 2e-4.
  constexpr std::int64_t kN = 64;
  std::vector<double> band(static_cast<std::size_t>(band_elements(kN)), 0.0);
  for (std::int64_t i = 0; i < kN; ++i) {
    band[static_cast<std::size_t>(band_index(i, i))] = i == 40 ? -1e-3 : 0.5;
  }
  DeviceArray<double> bands(band);
  DeviceArray<std::int64_t> which(std::vector<std::int64_t>{0});
  DeviceArray<double> shifts(std::vector<double>{2e-4});
  DeviceArray<double> factors(static_cast<std::size_t>(band_factor_elements(kN)));
  DeviceArray<int> info(1);
  factor_bands<double>({bands.data(), which.data(), kN, kN, 1}, shifts.data(), factors.data(),
                       info.data(), stream());
  EXPECT_EQ(info.values()[0], 0);
  DeviceArray<double> columns(std::vector<double>(static_cast<std::size_t>(8 * kN), 1.0));
  solve_bands(factors.data(), kN, 1, columns.data(), kN, 8 * kN, 8, stream());
  const std::vector<double> got = columns.values();
  EXPECT_NEAR(got[0], 1.0 / 0.502, 1e-12);
  EXPECT_NEAR(got[40], 1.0 / (2e-3 - 1e-3), 1e-8);
}

TEST_P(BandTail, PassesAreSummedAsWhatEachOfThemLeft) {
  constexpr std::int64_t kN = 100;
  Reduced<float> reduced({gram_of_noise(kN, 7), gram_of_noise(kN, 8)}, stream());
  const std::int64_t order = reduced.order;
  DeviceArray<double> sums(2);
  sum_passes(reduced.bands.data(), order, 2, sums.data(), stream());
  const std::vector<float> bands = reduced.bands.values();
  const std::vector<double> got = sums.values();
  for (std::int64_t matrix = 0; matrix < 2; ++matrix) {
    double wanted = 0.0;
    for (std::int64_t start = 0; start < order; start += kBand) {
      for (std::int64_t j = start; j < order; ++j) {
        for (std::int64_t i = j; i < std::min(order, j + kBand + 1); ++i) {
          const auto value = static_cast<double>(
              bands[static_cast<std::size_t>(matrix * band_elements(order) + band_index(i, j))]);
          wanted += (i == j ? 1.0 : 2.0) * value * value;
        }
      }
    }
    EXPECT_NEAR(got[static_cast<std::size_t>(matrix)], wanted, 1e-12 * wanted);
  }
}

INSTANTIATE_THREAD_ORDERS(BandTail);

}  // namespace
}  // namespace vindex::test::band_tail_test
