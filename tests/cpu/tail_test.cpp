// kTail of the CPU back end in its parts: the factor that a reduction leaves, the inverse of a
// band, the eigenvectors of its smallest values.
#include "cpu/gram/gram.hpp"
#include "cpu/tail/band_inverse.hpp"
#include "cpu/tail/smallest_pairs.hpp"
#include "cpu/top/orthonormal.hpp"
#include "cpu/tridiagonal/reduced_gram.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace vindex::test::tail_test {
namespace {

using cpu::BandInverse;
using cpu::ReducedGram;
using cpu::WorkArray;
using cpu::Workspace;

class AfterPanels final : public cpu::NarrowRule {
 public:
  explicit AfterPanels(std::int64_t panels) : panels_(panels) {}
  bool allows(double /*norm_squared*/, std::int64_t /*order*/) const override {
    return ++asked_ == panels_;
  }

 private:
  std::int64_t panels_;
  mutable std::int64_t asked_ = 0;
};

/// How a Gram matrix is reduced, and of which columns of the weights.
struct How {
  std::int64_t panels_in_float64 = 0;  ///< of a reduction in both precisions
  std::int64_t zero_every = 0;         ///< columns that are zero
};

/// G = W^T W of noise, and what its reduction leaves.
template <typename Real>
struct Reduced {
  explicit Reduced(std::int64_t p, const How& how = {})
      : n(p), gram(static_cast<std::size_t>(p * p)) {
    FloatMatrix noise = gaussian_matrix(p + 3, p, 11, 0.1);
    for (std::int64_t c = 0; how.zero_every > 0 && c < p; c += how.zero_every) {
      for (std::int64_t r = 0; r < noise.rows; ++r) {
        noise.at(r, c) = 0.0F;
      }
    }
    for (std::int64_t j = 0; j < p; ++j) {
      for (std::int64_t i = 0; i < p; ++i) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < p + 3; ++k) {
          sum += static_cast<double>(noise.at(k, i)) * static_cast<double>(noise.at(k, j));
        }
        gram[static_cast<std::size_t>(j * p + i)] = static_cast<Real>(sum);
      }
    }
    std::vector<Real> packed = gram;
    reduced.short_side = p;
    reduced.lines = cpu::nonzero_lines(packed.data(), p);
    cpu::keep_lines(packed.data(), p, reduced.lines);
    const auto left = static_cast<std::int64_t>(reduced.lines.size());
    reduced.n = left;
    reduced.wide_columns = sizeof(Real) == sizeof(double) ? left : 0;
    reduced.band = WorkArray<double>(workspace, cpu::band_elements(left), "band");
    reduced.factor = room_for_factor(left, sizeof(Real));
    reduced.form.band = reduced.band.span();
    std::vector<double> d(static_cast<std::size_t>(left)), e(static_cast<std::size_t>(left));
    if constexpr (sizeof(Real) == sizeof(double)) {
      if (how.panels_in_float64 > 0) {
        reduced.rest_factor = room_for_factor(left, sizeof(float));
        const AfterPanels rule(how.panels_in_float64);
        cpu::NarrowRest rest{.norm_squared = 1.0,
                             .rule = &rule,
                             .room = reinterpret_cast<float*>(packed.data()),
                             .workspace = reduced.rest_factor.span()};
        cpu::tridiagonalise_mixed(packed.data(), left, left, d, e, reduced.factor.span(), rest,
                                  &reduced.form);
        reduced.wide_columns = rest.columns;
        return;
      }
    }
    cpu::tridiagonalise(packed.data(), left, left, d, e, reduced.factor.span(), &reduced.form);
  }

  WorkArray<std::byte> room_for_factor(std::int64_t order, std::size_t element_bytes) {
    return {workspace,
            static_cast<std::int64_t>(cpu::tridiagonalise_workspace_bytes(order, element_bytes)),
            "factor"};
  }

  std::int64_t n;
  std::vector<Real> gram;
  Workspace workspace{0};
  ReducedGram reduced;
};

template <typename Real>
void expect_factor(std::int64_t p, double tolerance, const How& how = {}) {
  Reduced<Real> one(p, how);
  const BandInverse band(one.reduced.form.band, one.reduced.n, one.workspace);
  const std::int64_t order = band.order();
  constexpr std::int64_t kColumns = 3;
  std::vector<double> x(static_cast<std::size_t>(p * kColumns));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<double>(7 * i + 1));
  }
  // Q B Q^T x against G x.
  std::vector<double> inner(static_cast<std::size_t>(order * kColumns));
  std::vector<double> product(inner.size());
  std::vector<double> back(x.size());
  cpu::apply_factor(one.reduced, true, x.data(), kColumns, inner.data(), one.workspace);
  band.multiply(inner.data(), kColumns, product.data());
  cpu::apply_factor(one.reduced, false, product.data(), kColumns, back.data(), one.workspace);
  const double scale = std::ldexp(1.0, one.reduced.form.exponent);
  double largest = 0.0;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    for (std::int64_t i = 0; i < p; ++i) {
      double expected = 0.0;
      for (std::int64_t j = 0; j < p; ++j) {
        expected += static_cast<double>(one.gram[static_cast<std::size_t>(j * p + i)]) *
                    x[static_cast<std::size_t>(c * p + j)];
      }
      largest = std::max(largest, std::abs(expected));
      EXPECT_NEAR(scale * back[static_cast<std::size_t>(c * p + i)], expected, tolerance);
    }
  }
  EXPECT_GT(largest, 1.0) << "the tolerance means something";
}

TEST(Tail, TheFactorOfAReductionLeadsBackToTheMatrix) {
  for (const std::int64_t p : {128, 160, 201}) {
    SCOPED_TRACE(p);
    expect_factor<float>(p, 2e-4);
    expect_factor<double>(p, 1e-12);
  }
}

TEST(Tail, TheFactorOfBothPrecisionsLeadsBackToo) {
  for (const std::int64_t p : {128, 160, 201}) {
    for (const std::int64_t panels : {1, 3, 6}) {
      SCOPED_TRACE(std::to_string(p) + ", " + std::to_string(panels));
      expect_factor<double>(p, 2e-4, {.panels_in_float64 = panels});
    }
  }
}

TEST(Tail, LinesThatAreZeroStayZero) {
  expect_factor<float>(201, 2e-4, {.zero_every = 5});
  expect_factor<double>(201, 1e-12, {.zero_every = 5});
  expect_factor<double>(201, 2e-4, {.panels_in_float64 = 3, .zero_every = 7});
}

TEST(Tail, ABandIsSolvedWith) {
  Reduced<double> one(203);
  BandInverse band(one.reduced.form.band, 203, one.workspace);
  const std::int64_t order = band.order();
  EXPECT_FALSE(band.factor(-1e3)) << "not definite";
  ASSERT_TRUE(band.factor(0.25));
  std::vector<double> x(static_cast<std::size_t>(order * 2));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::cos(static_cast<double>(3 * i));
  }
  std::vector<double> image(x.size());
  band.multiply(x.data(), 2, image.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    image[i] += 0.25 * x[i];
  }
  band.solve(image.data(), 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(image[i], x[i], 1e-12);
  }
}

TEST(Tail, TheSmallestPairsOfABandAreFound) {
  Reduced<double> one(203);
  BandInverse band(one.reduced.form.band, 203, one.workspace);
  ASSERT_TRUE(band.factor(1e-9));
  constexpr std::int64_t kCount = 7;
  const std::int64_t width = cpu::carried_columns(kCount, band.order());
  WorkArray<double> columns(one.workspace, band.order() * width, "columns");
  ASSERT_TRUE(cpu::smallest_pairs(band, kCount, 1e-10, columns, one.workspace));
  const std::vector<double> sigma = reference_singular_values(gaussian_matrix(206, 203, 11, 0.1));
  std::vector<double> image(static_cast<std::size_t>(band.order() * width));
  band.multiply(columns.data(), width, image.data());
  for (std::int64_t j = 0; j < kCount; ++j) {
    double value = 0.0;
    for (std::int64_t i = 0; i < band.order(); ++i) {
      value +=
          columns[j * band.order() + i] * image[static_cast<std::size_t>(j * band.order() + i)];
    }
    const double expected = sigma[static_cast<std::size_t>(202 - j)];
    EXPECT_NEAR(std::sqrt(std::ldexp(value, one.reduced.form.exponent)), expected, 1e-9);
  }
  EXPECT_FALSE(cpu::smallest_pairs(band, kCount, 0.0, columns, one.workspace)) << "never enough";
}

}  // namespace
}  // namespace vindex::test::tail_test
