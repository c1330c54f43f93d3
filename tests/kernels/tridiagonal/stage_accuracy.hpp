// Owns the judgement of the stages behind a band in float32: chases of 7 and 14 sweeps leave the
// same bits; what kernels/tridiagonal/precision.hpp lets stand lies within a quarter of what the
// metrics contract promises, what it does not does so after float64 stages, and every error is at
// most the one that is stated.
#pragma once

#include "kernels/tridiagonal/two_stage.hpp"
#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/step_result.hpp"
#include "tests/kernels/band/law_bands.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vindex::test {

class StageAccuracy : public KernelTest {
 protected:
  static constexpr std::size_t kSharedBytes = 232448;  ///< of sm_90
  static constexpr double kOfPromise = 0.25;

  struct Tridiagonals {
    std::vector<double> diagonal, off_diagonal;
    friend bool operator==(const Tridiagonals&, const Tridiagonals&) = default;
  };

  template <typename Real>
  Tridiagonals chase(const LawBand& law, int sweeps) {
    std::vector<float> band(static_cast<std::size_t>(kernels::chase_elements(law.order)), 0.0F);
    for (std::int64_t j = 0; j < law.order; ++j) {
      for (std::int64_t i = j; i < std::min(law.order, j + 33); ++i) {
        band[static_cast<std::size_t>(kernels::band_index(i, j))] =
            static_cast<float>(law.elements[static_cast<std::size_t>(j * 33 + i - j)]);
      }
    }
    DeviceArray<float> device(band);
    DeviceArray<double> diagonal(static_cast<std::size_t>(law.order));
    DeviceArray<double> off_diagonal(diagonal.size());
    kernels::chase_bands<float, Real>(device.data(), law.order, 1,
                                      kernels::chase_shape(kSharedBytes, sizeof(Real), sweeps),
                                      diagonal.data(), off_diagonal.data(), stream());
    return {diagonal.values(), off_diagonal.values()};
  }

  std::vector<double> values(const Tridiagonals& matrix, bool in_float32) {
    const auto n = static_cast<std::int64_t>(matrix.diagonal.size());
    DeviceArray<double> diagonal(matrix.diagonal);
    DeviceArray<double> off_diagonal(matrix.off_diagonal);
    DeviceArray<double> out(matrix.diagonal.size());
    DeviceArray<int> failed(1);
    const auto find = in_float32 ? kernels::tridiagonal_values32 : kernels::tridiagonal_values;
    find(diagonal.data(), off_diagonal.data(), n, 1, kernels::ValueOrder::kDescending, out.data(),
         failed.data(), stream(), kernels::kTridiagonalRowsInShared);
    return out.values();
  }

  /// Of a device whose sums and reduction round as those of the CUDA back end.
  static statistics::Rounding rounding(const LawBand& law, const kernels::StagePrecision& stages) {
    const int sweeps = stages.chase32 ? 14 : 7;
    return statistics::gram_rounding(
        kernels::with_stages({.unit = 0x1p-23, .depth = 128, .reduction_unit = 0x1p-23}, true,
                             stages, sweeps),
        law.order, law.long_side(), law.norms);
  }

  static statistics::StepContext situation(const LawBand& law) {
    return statistics::begin_measurement(
        statistics::Step::kGram32, law.long_side(), law.order, {.svd_route = "two-stage"},
        {.sum_terms = static_cast<double>(law.long_side()), .max_tail_values = law.order / 16});
  }

  statistics::StepResult finding(const LawBand& law, const std::vector<double>& squares,
                                 const kernels::StagePrecision& stages) {
    statistics::StepResult found;
    statistics::take_eigenvalues({.eigenvalues = squares}, found);
    found.moments.count = law.long_side() * law.order;
    found.moments.sum_squares = law.norms.sum_squares;
    found.moments.min = -1.0;
    found.moments.max = 1.0;
    found.gram_norm_squared = law.norms.gram_norm_squared;
    found.rounding = rounding(law, stages);
    return found;
  }

  /// The largest share of what is promised, and of what is stated, that the errors of `found` are.
  struct Shares {
    double promised = 0.0, stated = 0.0;
  };
  static Shares shares(const LawBand& law, const statistics::StepResult& found) {
    const std::vector<double> errors = statistics::sigma_errors(found, situation(law));
    const double largest = std::sqrt(law.squares.front());
    const bool is_modest =
        law.squares.back() * std::pow(statistics::kModestCondition, 2.0) >= law.squares.front();
    Shares worst;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const double s = std::sqrt(std::max(law.squares[i], 0.0));
      const double error = std::abs(found.sigma[i] - s);
      worst.promised =
          std::max(worst.promised, error / statistics::promised_error(i, s, largest, is_modest));
      worst.stated = std::max(worst.stated, error / errors[i]);
    }
    return worst;
  }

  /// `stands`: whether float32 stages are to be enough for this law.
  void expect_within_promises(const std::string& name, std::int64_t order, bool stands) {
    SCOPED_TRACE(name + ", order " + std::to_string(order));
    const LawBand law = band_of_law(name, order);
    constexpr kernels::StagePrecision kNarrow = {.chase32 = true, .values32 = true};
    const Tridiagonals chased = chase<float>(law, 14);
    EXPECT_EQ(chase<float>(law, 7), chased) << "7 sweeps";
    const statistics::StepResult found = finding(law, values(chased, true), kNarrow);
    const Shares narrow = shares(law, found);
    const bool may_stand = kernels::may_stand(found, rounding(law, {}), situation(law), false);
    EXPECT_EQ(may_stand, stands);
    EXPECT_LE(narrow.stated, 1.0);
    std::printf("%s, order %lld: %.3f of the promise, %.3f of what is stated%s\n", name.c_str(),
                static_cast<long long>(order), narrow.promised, narrow.stated,
                may_stand ? "" : ", again in float64");
    if (may_stand) {
      EXPECT_LE(narrow.promised, kOfPromise);
      return;
    }
    const statistics::StepResult again = finding(law, values(chase<double>(law, 7), false), {});
    const Shares wide = shares(law, again);
    EXPECT_LE(wide.promised, kOfPromise);
    EXPECT_LE(wide.stated, 1.0);
  }
};

}  // namespace vindex::test
