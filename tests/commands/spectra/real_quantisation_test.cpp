// What 8 and 4 bits do to the spectra of a trained model, against the rule of
// docs/examples/examples.md: rounding adds noise of relative size e, so var@k moves to (var@k + e^2
// null) / (1 + e^2).
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <cmath>
#include <map>

namespace vindex::testing::real_quantisation_test {
namespace {

class RealQuantisationTest : public ProgramTest {
 protected:
  /// Every tensor of a model once, all slices.
  std::vector<float> tensor(const std::string& model, const std::string& name) {
    auto& values = cache_[model + name];
    if (values.empty()) {
      values = decoded(model, name);
    }
    return values;
  }
  struct Shift {
    MeasuredRow before, after;
    double error = 0.0;                                      ///< norm of the difference
    double relative_error = 0.0;                             ///< e
    double predicted = 0.0, observed = 0.0, original = 0.0;  ///< var@64
  };
  /// One entry per matrix of the chosen roles; the decoded weights give e.
  std::vector<Shift> shifts(const std::string& quantised) {
    const std::vector<std::string> selection = {"--layers", "0,3", "--blocks",
                                                "attention,dense_mlp,routed_expert"};
    const std::string before_file = measured(mixture_gguf_, "before", selection);
    const auto before = by_key(read_rows(before_file));
    const auto after = by_key(read_rows(measured(quantised, "after", selection)));
    EXPECT_EQ(before.size(), after.size());
    const std::size_t k64 = column_of_k(before_file, 64);
    std::vector<Shift> out;
    for (const auto& [key, row] : before) {
      Shift shift;
      shift.before = row;
      shift.after = after.at(key);
      const auto a = tensor(mixture_gguf_, row.tensor), b = tensor(quantised, row.tensor);
      const auto count = static_cast<std::size_t>(row.rows * row.cols);
      const std::size_t start = count * static_cast<std::size_t>(std::max<std::int64_t>(
                                            std::max(row.expert, row.slice), 0));
      double error = 0.0, norm = 0.0;
      for (std::size_t i = start; i < start + count; ++i) {
        const double original = a.at(i), difference = b.at(i) - original;
        error += difference * difference;
        norm += original * original;
      }
      shift.error = std::sqrt(error);
      shift.relative_error = std::sqrt(error / norm);
      shift.original = row.var_at_k[k64];
      shift.observed = shift.after.var_at_k[k64];
      shift.predicted =
          (shift.original + error / norm * row.var_at_k_null[k64]) / (1 + error / norm);
      EXPECT_NEAR(row.frobenius_norm, std::sqrt(norm), 1e-9 * std::sqrt(norm)) << row.tensor;
      out.push_back(shift);
    }
    return out;
  }
  /// Mirsky (1960), exact for any perturbation; and the rule, whose error is the chance overlap of
  /// the rounding with the leading directions (standard deviation 2 e sqrt(v (1-v)) / sqrt(rows
  /// cols)) plus terms of order e^2.
  static void expect_within_bounds(const std::vector<Shift>& shifts) {
    for (const Shift& shift : shifts) {
      double moved = 0.0;
      for (std::size_t i = 0; i < shift.before.sigma.size(); ++i) {
        moved += std::pow(shift.after.sigma.at(i) - shift.before.sigma[i], 2);
      }
      EXPECT_LE(std::sqrt(moved), shift.error * (1 + 1e-9)) << shift.before.tensor;
      const double e = shift.relative_error, v = shift.original;
      const double entries = static_cast<double>(shift.before.rows * shift.before.cols);
      const double chance = 2 * e * std::sqrt(std::max(v * (1 - v), 0.0) / entries);
      EXPECT_NEAR(shift.observed, shift.predicted, 5 * chance + 0.2 * e * e + 1e-9)
          << shift.before.tensor << " " << shift.after.encoding << " e " << e << " was " << v;
    }
  }
  std::map<std::string, std::vector<float>> cache_;
};

TEST_F(RealQuantisationTest, EightBitsMoveNothingThatMatters) {
  const std::string split = data_ + "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf";
  VINDEX_NEEDS(split);
  const auto all = shifts(split);
  ASSERT_EQ(all.size(), 2U * (4 + 8) + 3 + 24);
  expect_within_bounds(all);
  for (const Shift& shift : all) {
    EXPECT_EQ(shift.after.encoding, "Q8_0");
    EXPECT_NEAR(shift.relative_error, 0.0053, 0.0008) << shift.before.tensor;
    EXPECT_NEAR(shift.observed, shift.original, 1e-4) << shift.before.tensor;
  }
}

TEST_F(RealQuantisationTest, FourBitsMoveVarAt64ByWhatTheRulePredicts) {
  const std::string q4 = data_ + "/gguf/full/kjv-moe-Q4_K_M.gguf";
  VINDEX_NEEDS(q4);
  const auto all = shifts(q4);
  ASSERT_EQ(all.size(), 2U * (4 + 8) + 3 + 24);
  expect_within_bounds(all);
  const std::map<std::string, std::pair<double, double>> errors = {{"Q4_K", {0.06, 0.10}},
                                                                   {"Q5_K", {0.03, 0.04}},
                                                                   {"Q6_K", {0.015, 0.021}},
                                                                   {"Q5_0", {0.034, 0.045}}};
  double moved = 0.0, unexplained = 0.0;
  for (const Shift& shift : all) {
    const auto [least, most] = errors.at(shift.after.encoding);
    EXPECT_GT(shift.relative_error, least) << shift.before.tensor;
    EXPECT_LT(shift.relative_error, most) << shift.before.tensor;
    if (shift.after.encoding == "Q4_K") {
      moved += std::abs(shift.observed - shift.original);
      unexplained += std::abs(shift.observed - shift.predicted);
    }
  }
  EXPECT_GT(moved, 0.0);
  EXPECT_LT(unexplained, 0.5 * moved);  // the rule explains more than half of what moves
  RecordProperty("unexplained_share", std::to_string(unexplained / moved));
}

}  // namespace
}  // namespace vindex::testing::real_quantisation_test
