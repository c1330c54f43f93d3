// What back ends share around the judgement, by hand: eigenvalues to singular values, the tail of a
// spectrum, what sign flips and vectors begin with, what is refused, what makes a batch.
#include "statistics/judgement/step_result.hpp"

#include "statistics/judgement/batch_inputs.hpp"
#include "statistics/judgement/further_results.hpp"
#include "statistics/judgement/tail_values.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace vindex::statistics::findings_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Findings, SignFlipsAndVectorsBeginWithWhatIsMeasured) {
  MeasureOptions options;
  const SignFlipCollector collector(2, 3, SpectrumMode::kDefault);
  MatrixReport report;
  EXPECT_FALSE(begin_draws(options, collector, report));
  EXPECT_FALSE(begin_vectors(options, report));
  options.sign_flip_draws = 3;
  options.vectors = 1;
  EXPECT_FALSE(begin_draws(options, collector, report)) << "failed";
  EXPECT_FALSE(begin_vectors(options, report));
  EXPECT_FALSE(report.sign_flip.has_value());
  EXPECT_FALSE(report.vectors.has_value());
  report.status = MatrixStatus::kMeasured;
  report.sigma = {0.0, 0.0};
  EXPECT_FALSE(begin_draws(options, collector, report)) << "zero";
  EXPECT_FALSE(begin_vectors(options, report));
  ASSERT_TRUE(report.sign_flip.has_value());
  EXPECT_EQ(report.sign_flip->draws.size(), 3U);
  EXPECT_EQ(report.sign_flip->first_sigma, report.sigma);
  ASSERT_TRUE(report.vectors.has_value());
  EXPECT_EQ(report.vectors->count, 0);
  report.moments.count = 1;
  report.moments.max = 1.0;
  EXPECT_TRUE(begin_draws(options, collector, report));
  EXPECT_TRUE(report.sign_flip->draws.empty());
  EXPECT_TRUE(begin_vectors(options, report));
}

TEST(Findings, ATailBelongsToItsSpectrumOrIsRefused) {
  const std::vector<double> sigma = {10.0, 5.0, 1e-9, 0.0};
  const double allowed = gram64_square_error(sigma);
  EXPECT_TRUE(is_tail_of(std::vector<double>{1e-12, 1e-15}, sigma, allowed));
  EXPECT_FALSE(is_tail_of({}, sigma, allowed));
  EXPECT_FALSE(is_tail_of(std::vector<double>{1e-3, 1e-15}, sigma, allowed))
      << "not what the Gram holds";
  EXPECT_FALSE(is_tail_of(std::vector<double>{5.0, 1e-15}, sigma, allowed)) << "a value was missed";
  EXPECT_FALSE(is_tail_of(std::vector<double>{kNaN, 1e-15}, sigma, allowed));
  EXPECT_TRUE(is_tail_of(sigma, sigma, allowed));
}

TEST(Findings, InputsAreRefusedForOneReason) {
  decode::EncodedMatrix matrix;
  decode::Encoding encoding = decode::plain_encoding(decode::ElementType::kF32);
  matrix.encoding = &encoding;
  matrix.rows = 2;
  matrix.cols = 3;
  MatrixReport report;
  EXPECT_FALSE(is_refused(*make_memory_input(matrix), report));
  matrix.cols = 0;
  EXPECT_TRUE(is_refused(*make_memory_input(matrix), report));
  EXPECT_EQ(report.status, MatrixStatus::kFailed);
  EXPECT_EQ(report.reason, "the matrix is empty");
  encoding.scheme = decode::Scheme::kUnsupported;
  encoding.label = "MYSTERY";
  EXPECT_TRUE(is_refused(*make_memory_input(matrix), report));
  EXPECT_EQ(report.status, MatrixStatus::kUnsupported);
  EXPECT_EQ(report.reason, "encoding MYSTERY cannot be decoded");
}

TEST(Findings, OneKindIsOneShapeOrientationAndEncoding) {
  const decode::Encoding half = decode::plain_encoding(decode::ElementType::kF16);
  const decode::Encoding same = decode::plain_encoding(decode::ElementType::kF16);
  const decode::Encoding other = decode::plain_encoding(decode::ElementType::kBF16);
  const auto input = [](const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                        bool transposed) {
    decode::EncodedMatrix matrix;
    matrix.encoding = &encoding;
    matrix.rows = rows;
    matrix.cols = cols;
    return make_memory_input(matrix, transposed);
  };
  const auto first = input(half, 4, 6, false);
  EXPECT_TRUE(is_same_kind(*first, *input(same, 4, 6, false)));
  EXPECT_FALSE(is_same_kind(*first, *input(other, 4, 6, false)));
  EXPECT_FALSE(is_same_kind(*first, *input(half, 6, 4, false)));
  EXPECT_FALSE(is_same_kind(*first, *input(half, 4, 6, true)));
}

StepResult taken(const RawSpectrum& raw) {
  StepResult found;
  take_eigenvalues(raw, found);
  return found;
}

TEST(Eigenvalues, RootsInDescendingOrderWhateverTheSolversOrder) {
  const std::vector<double> ascending = {4.0, 9.0, 25.0};
  const std::vector<double> descending = {25.0, 9.0, 4.0};
  const std::vector<double> wanted = {5.0, 3.0, 2.0};
  EXPECT_EQ(taken({.eigenvalues = ascending}).sigma, wanted);
  EXPECT_EQ(taken({.eigenvalues = descending}).sigma, wanted);
}

TEST(Eigenvalues, ExponentsOfEitherParityAndSign) {
  const std::vector<double> values = {8.0};
  EXPECT_EQ(taken({.eigenvalues = values, .exponent = 1}).sigma[0], 4.0);
  EXPECT_EQ(taken({.eigenvalues = values, .exponent = -1}).sigma[0], 2.0);
  EXPECT_EQ(taken({.eigenvalues = values, .exponent = -3}).sigma[0], 1.0);
  EXPECT_EQ(taken({.eigenvalues = values, .exponent = -401}).sigma[0], std::ldexp(2.0, -200));
}

TEST(Eigenvalues, ZeroRowsBecomeExactZerosAndHideNoNegative) {
  const std::vector<double> noise = {4.0, 1e-17, -2e-17, 1e-3};
  const StepResult found = taken({.eigenvalues = noise, .zero_rows = 2});
  EXPECT_EQ(found.sigma[0], 2.0);
  EXPECT_EQ(found.sigma[2], 0.0);
  EXPECT_EQ(found.sigma[3], 0.0);
  EXPECT_FALSE(found.negative);
  EXPECT_EQ(found.zero_rows, 2);
  const std::vector<double> below = {4.0, 0.0, -1e-9};
  const StepResult bad = taken({.eigenvalues = below, .zero_rows = 1});
  EXPECT_TRUE(bad.negative);
  EXPECT_EQ(bad.sigma, (std::vector<double>{2.0, 0.0, 0.0}));
  const std::vector<double> rest = {1.0, 4.0};
  const StepResult without = taken({.eigenvalues = rest, .left_out = 2});
  EXPECT_EQ(without.sigma, (std::vector<double>{2.0, 1.0, 0.0, 0.0}));
  EXPECT_EQ(without.zero_rows, 2);
}

TEST(Eigenvalues, FailureAndNotANumberGiveNothing) {
  const std::vector<double> values = {1.0, kNaN};
  EXPECT_TRUE(taken({.eigenvalues = values}).sigma.empty());
  const std::vector<double> good = {1.0};
  EXPECT_TRUE(taken({.eigenvalues = good, .failed = true}).sigma.empty());
}

}  // namespace
}  // namespace vindex::statistics::findings_test
