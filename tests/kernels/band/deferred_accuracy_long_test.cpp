// What a reduction with deferred updates leaves of the eigenvalues of Gram matrices of orders at
// which groups of every size occur: about what the former one
// leaves, and less than is stated for it. The emulation takes minutes.
#include "reduced_bands.hpp"

#include "kernels/band/band_reduction.hpp"
#include "kernels/band/deferred/deferred_band.hpp"
#include "kernels/gram/symmetric.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_error.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

namespace vindex::test::deferred_accuracy_long_test {
namespace {

using kernels::BandRoute;

constexpr std::size_t kHopper = std::size_t{227} << 10U;

/// Row-major rows x p, standard normal.
std::vector<double> normals(std::int64_t rows, std::int64_t p, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out(static_cast<std::size_t>(rows * p));
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// W^T W of row-major rows x p weights.
SymmetricMatrix gram_of(const std::vector<double>& weights, std::int64_t p) {
  openblas_set_num_threads(1);
  const auto rows = static_cast<std::int64_t>(weights.size()) / p;
  SymmetricMatrix out(p);
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(p), static_cast<int>(p),
              static_cast<int>(rows), 1.0, weights.data(), static_cast<int>(p), weights.data(),
              static_cast<int>(p), 0.0, out.values.data(), static_cast<int>(p));
  return out;
}

/// Of singular values given by their index from 0 on, with singular vectors in random directions.
SymmetricMatrix gram_with(std::int64_t p, const std::function<double(double)>& value) {
  std::vector<double> q = normals(p, p, 7);
  const auto n = static_cast<lapack_int>(p);
  std::vector<double> tau(static_cast<std::size_t>(p));
  const lapack_int room = 64 * n;
  std::vector<double> work(static_cast<std::size_t>(room));
  lapack_int info = 0;
  LAPACK_dgeqrf(&n, &n, q.data(), &n, tau.data(), work.data(), &room, &info);
  LAPACK_dorgqr(&n, &n, &n, q.data(), &n, tau.data(), work.data(), &room, &info);
  for (std::int64_t i = 0; i < p; ++i) {
    const double s = value(static_cast<double>(i));
    for (std::int64_t j = 0; j < p; ++j) {
      q[static_cast<std::size_t>(i * p + j)] *= s;
    }
  }
  return gram_of(q, p);
}

SymmetricMatrix gram_of_law(const std::string& law, std::int64_t p) {
  const auto count = static_cast<double>(p);
  if (law == "noise") {
    return gram_of(normals(2 * p, p, 1), p);
  }
  if (law == "square noise") {
    return gram_of(normals(p, p, 1), p);
  }
  if (law == "one spike") {
    std::vector<double> w = normals(2 * p, p, 2);
    const std::vector<double> u = normals(2 * p, 1, 3);
    const std::vector<double> v = normals(p, 1, 4);
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] += 0.3 * u[i / static_cast<std::size_t>(p)] * v[i % static_cast<std::size_t>(p)];
    }
    return gram_of(w, p);
  }
  if (law == "graded") {
    std::vector<double> w = normals(2 * p, p, 5);
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] *= std::pow(10.0, -6.0 * static_cast<double>(i % static_cast<std::size_t>(p)) / count);
    }
    return gram_of(w, p);
  }
  if (law.rfind("Kahan", 0) == 0) {
    const double angle = law.size() > 6 ? std::stod(law.substr(6)) : 1.4;
    std::vector<double> w(static_cast<std::size_t>(p * p), 0.0);
    for (std::int64_t i = 0; i < p; ++i) {
      const double scale = std::pow(std::sin(angle), static_cast<double>(i));
      for (std::int64_t j = i; j < p; ++j) {
        w[static_cast<std::size_t>(i * p + j)] = i == j ? scale : -std::cos(angle) * scale;
      }
    }
    return gram_of(w, p);
  }
  if (law == "power 0.7") {
    return gram_with(p, [](double i) { return std::pow(i + 1.0, -0.7); });
  }
  if (law == "power 1") {
    return gram_with(p, [](double i) { return 1.0 / (i + 1.0); });
  }
  if (law == "geometric 100") {
    return gram_with(p, [&](double i) { return std::pow(100.0, -i / (count - 1.0)); });
  }
  if (law == "rank-deficient") {
    return gram_with(p, [&](double i) { return i < count / 2.0 ? 1.0 / (1.0 + i / 8.0) : 0.0; });
  }
  // As training leaves them: a power law above a floor of noise.
  return gram_with(
      p, [&](double i) { return 0.9 * std::pow(i + 1.0, -0.7) + 0.1 * (1.0 - 0.8 * i / count); });
}

/// As float32 holds it.
SymmetricMatrix rounded(const SymmetricMatrix& exact) {
  SymmetricMatrix matrix(exact.order);
  const std::vector<float> values = exact.padded<float>(exact.order);
  matrix.values.assign(values.begin(), values.end());
  return matrix;
}

std::vector<double> descending(const SymmetricMatrix& matrix) {
  std::vector<double> values = eigenvalues_of(matrix);
  std::reverse(values.begin(), values.end());
  return values;
}

/// Of what `default` promises. A quarter but for relative promises at a condition of 100 and of the
/// smallest values of square noise, which tails find again: a reduction by multiply-add alone
/// leaves 0.42 of those.
constexpr double kOfPromise = 0.4;

struct Shares {
  double rms = 0.0;       ///< over the values, in units of 2^-24 of the largest
  double largest = 0.0;   ///< in the same units
  double stated = 0.0;    ///< of the stated error of each value
  double promised = 0.0;  ///< of what `default` promises, where as much is stated
};

class DeferredAccuracy : public KernelTest {
 protected:
  Bands bands_of(const SymmetricMatrix& matrix, const kernels::BandPlan& plan, double& passes) {
    DeviceArray<float> device(matrix.padded<float>(plan.order));
    DeviceArray<float> band(static_cast<std::size_t>(kernels::band_elements(plan.order)));
    DeviceArray<std::int32_t> exponents(1);
    DeviceArray<std::byte> workspace(plan.workspace_bytes_per_matrix);
    DeviceArray<double> sums(1);
    const kernels::BandBatch<float> task{device.data(), 1, band.data(), exponents.data(),
                                         workspace.data()};
    if (plan.deferred_panels > 0) {
      kernels::reduce_to_band_deferred(plan, task, stream());
    } else {
      kernels::reduce_to_band(plan, task, stream());
    }
    kernels::sum_passes(band.data(), plan.order, 1, sums.data(), stream());
    const std::vector<float> got = band.values();
    const std::vector<std::int32_t> scale = exponents.values();
    passes = std::ldexp(sums.values()[0], 2 * scale[0]);
    return {{got.begin(), got.end()}, scale};
  }

  Shares shares_of(const SymmetricMatrix& matrix, const std::vector<double>& wanted,
                   BandRoute route, bool defer) {
    const std::int64_t p = matrix.order;
    const kernels::BandPlan plan =
        kernels::plan_band_reduction<float>(kernels::band_order(p), route, kHopper, defer);
    EXPECT_EQ(plan.deferred_panels > 0, defer);
    statistics::GramNorms norms;
    const Bands bands = bands_of(matrix, plan, norms.passes_norm_squared);
    std::vector<double> got = eigenvalues_of(dense_of(bands, plan.order));
    std::reverse(got.begin(), got.end());
    for (std::int64_t i = 0; i < p; ++i) {
      norms.sum_squares += matrix.at(i, i);
      norms.diagonal_norm_squared += matrix.at(i, i) * matrix.at(i, i);
      norms.largest_diagonal = std::max(norms.largest_diagonal, matrix.at(i, i));
    }
    for (const double value : matrix.values) {
      norms.gram_norm_squared += value * value;
    }
    {
      DeviceArray<float> device(matrix.padded<float>(plan.order));
      DeviceArray<double> parts(static_cast<std::size_t>(kernels::kAdditiveParts));
      kernels::add_additive(device.data(), p, plan.order, 1, parts.data(), stream());
      for (const double part : parts.values()) {
        norms.additive_norm_squared += part;
      }
    }
    const double chain = static_cast<double>(p) / (route == BandRoute::kPlain ? 1.0 : 16.0);
    // A Gram without rounding, and eigenvalues of the band in float64.
    const statistics::Rounding rounding = statistics::gram_rounding(
        {.unit = 0.0, .depth = 128, .reduction_unit = 0x1p-23, .reduction_chain = chain}, p, 2 * p,
        norms);
    std::vector<double> sigma;
    for (const double value : got) {
      sigma.push_back(std::sqrt(std::max(value, 0.0)));
    }
    const std::vector<double> errors = statistics::eigenvalue_errors(sigma, rounding);
    const double largest = std::sqrt(wanted.front());
    const double smallest = std::sqrt(std::max(wanted.back(), 0.0));
    const bool is_modest = smallest * statistics::kModestCondition >= largest;
    Shares out;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(got[i] - wanted[i]);
      const double in_units = error / (0x1p-24 * wanted.front());
      out.rms += in_units * in_units / static_cast<double>(wanted.size());
      out.largest = std::max(out.largest, in_units);
      out.stated = std::max(out.stated, error / errors[i]);
      const double s = std::sqrt(std::max(wanted[i], 0.0));
      const double promised = statistics::promised_error(i, s, largest, is_modest);
      if (statistics::root_error(sigma[i], errors[i]) <= promised) {
        out.promised = std::max(out.promised, std::abs(sigma[i] - s) / promised);
      }
    }
    out.rms = std::sqrt(out.rms);
    return out;
  }

  void expect_as_good(const std::string& law, std::int64_t p) {
    SCOPED_TRACE(law + ", order " + std::to_string(p));
    const SymmetricMatrix matrix = rounded(gram_of_law(law, p));
    const std::vector<double> wanted = descending(matrix);
    const Shares former = shares_of(matrix, wanted, BandRoute::kTensor, false);
    const Shares deferred = shares_of(matrix, wanted, BandRoute::kTensor, true);
    std::printf(
        "%s, order %lld, former and deferred: rms %.3f %.3f, largest %.2f %.2f, "
        "stated "
        "%.3f %.3f, promised %.3f %.3f\n",
        law.c_str(), static_cast<long long>(p), former.rms, deferred.rms, former.largest,
        deferred.largest, former.stated, deferred.stated, former.promised, deferred.promised);
    EXPECT_LE(former.stated, 1.0);
    EXPECT_LE(deferred.stated, 1.0);
    EXPECT_LE(deferred.promised, kOfPromise);
    // Of Kahan's matrices either errs by some roundings of the largest value, as their bits fall.
    if (law.rfind("Kahan", 0) != 0) {
      EXPECT_LE(deferred.rms, 1.25 * former.rms + 0.02);
    }
  }

  /// By multiply-add, whose sums are the longest.
  void expect_as_stated_by_plain(const std::string& law, std::int64_t p) {
    SCOPED_TRACE(law + " by plain reduction, order " + std::to_string(p));
    const SymmetricMatrix matrix = rounded(gram_of_law(law, p));
    const Shares shares = shares_of(matrix, descending(matrix), BandRoute::kPlain, false);
    std::printf("%s, order %lld, plain: largest %.2f, stated %.3f\n", law.c_str(),
                static_cast<long long>(p), shares.largest, shares.stated);
    EXPECT_LE(shares.stated, 1.0);
  }

  void SetUp() override {
    KernelTest::SetUp();
    if (!is_tried("deferred")) {
      GTEST_SKIP() << "of deferred updates";
    }
  }
};

TEST_P(DeferredAccuracy, OfOrder256) {
  for (const char* const law :
       {"Kahan 1.2", "Kahan 1.3", "Kahan 1.35", "Kahan 1.4", "Kahan 1.45", "Kahan 1.5"}) {
    expect_as_good(law, 256);
    expect_as_stated_by_plain(law, 256);
  }
}

TEST_P(DeferredAccuracy, OfOrder512) {
  for (const char* const law : {"noise", "square noise", "power 0.7", "power 1", "geometric 100",
                                "one spike", "trained", "rank-deficient", "graded", "Kahan"}) {
    expect_as_good(law, 512);
  }
  expect_as_stated_by_plain("Kahan 1.3", 512);
}

/// By hand: VINDEX_DEFERRED_LAWS="1024,noise,trained".
TEST_P(DeferredAccuracy, DISABLED_OfLawsAskedFor) {
  const char* const asked = std::getenv("VINDEX_DEFERRED_LAWS");
  ASSERT_NE(asked, nullptr);
  std::string text = asked;
  std::int64_t p = 0;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string word = text.substr(0, end);
    text = end == std::string::npos ? "" : text.substr(end + 1);
    if (p == 0) {
      p = std::stoll(word);
    } else {
      expect_as_good(word, p);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Order, DeferredAccuracy, ::testing::Values(0ULL));

}  // namespace
}  // namespace vindex::test::deferred_accuracy_long_test
