// The error that a spectrum through a Gram answers for: by hand, and against perturbed matrices
// whose spectra LAPACK finds in float64.
#include "statistics/judgement/spectrum_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace vindex::statistics::spectrum_error_test {
namespace {

TEST(SpectrumError, AValueAloneAnswersForItsEntriesAndItself) {
  const Rounding rounding = {.entry = 1e-9, .relative = 1e-7};
  const std::vector<double> errors =
      eigenvalue_errors(std::vector<double>{1.0, 0.5, 0.1, 0.01, 0.001}, rounding);
  EXPECT_NEAR(errors[0], 1e-8 + 1e-6, 1e-12);
  EXPECT_NEAR(errors[1], 1e-8 + 2.5e-7, 1e-12);
  EXPECT_NEAR(errors[3], 1e-8 + 1e-10, 1e-12);
}

// What goes with a value's own size is not charged to the others, whatever they are mixed with.
TEST(SpectrumError, TheLargestAnswerForThemselvesAndForAnyMixing) {
  const Rounding rounding = {.entry = 1e-9, .relative = 1e-7};
  const std::vector<double> errors = largest_errors(std::vector<double>{1.0, 1e-4}, 100, rounding);
  EXPECT_NEAR(errors[0], 5e-8 + 1e-6, 1e-12);
  EXPECT_NEAR(errors[1], 5e-8 + 1e-10, 1e-12);
}

// Entries a_i + a_j round in a pattern, and their sums together by what the diagonal shows.
TEST(SpectrumError, EntriesThatAreSumsOfTheirLinesRoundTogether) {
  const GramNorms norms = {.sum_squares = 1.0,
                           .gram_norm_squared = 1.0,
                           .diagonal_rounding = 1e-6,
                           .additive_norm_squared = 0.04};
  const Rounding rounding = gram_rounding({.reduction_unit = 0x1p-24}, 1000, 16384, norms);
  EXPECT_NEAR(rounding.blocks, 0.2 * 0x1p-24, 1e-15);
  const Rounding chained =
      gram_rounding({.reduction_unit = 0x1p-24, .reduction_chain = 160.0}, 1000, 16384, norms);
  EXPECT_NEAR(chained.blocks, 11.0 * 0.2 * 0x1p-24, 1e-15) << "sums of equal terms";
  const std::vector<double> errors = eigenvalue_errors(
      std::vector<double>{1.0, 0.1},
      {.entry = 0.0, .additive_relative = rounding.additive_relative, .additive_norm = 0.2});
  EXPECT_NEAR(errors[0], 2.0 * 1e-6 * 0.2, 1e-12) << "the norm of what rounded";
  EXPECT_NEAR(errors[1], 2.0 * 1e-6 * 0.01, 1e-12) << "the value itself";
}

// Sums of one sign that rounded more than the model says are taken at their word.
TEST(SpectrumError, TheDiagonalSaysHowMuchSumsOfOneSignRounded) {
  GramNorms norms = {.sum_squares = 1.0, .gram_norm_squared = 1.0, .aligned_norm_squared = 1.0};
  const GramArithmetic sums = {.reduction_unit = 0.0};
  const Rounding silent = gram_rounding(sums, 1000, 16384, norms);
  EXPECT_EQ(silent.biased, 0.0);
  norms.diagonal_rounding = 1e-8;
  EXPECT_EQ(gram_rounding(sums, 1000, 16384, norms).entry, silent.entry) << "less than the model";
  norms.diagonal_rounding = 1e-5;
  const Rounding biased = gram_rounding(sums, 1000, 16384, norms);
  EXPECT_NEAR(biased.entry, 1e-8, 1e-10);
  EXPECT_EQ(biased.biased, 1e-5);
  EXPECT_NEAR(eigenvalue_errors(std::vector<double>{1.0}, biased)[0],
              10.0 * (biased.entry + biased.relative) + 2e-5, 1e-9);
  norms.block_rounding = 1e-6;
  const Rounding blocks = gram_rounding(sums, 1000, 16384, norms);
  const std::vector<double> two = {1.0, 1e-3};
  EXPECT_NEAR(eigenvalue_errors(two, blocks)[1] - eigenvalue_errors(two, biased)[1], 2e-6, 1e-12)
      << "of every value";
  EXPECT_NEAR(largest_errors(two, 9, blocks)[1] - largest_errors(two, 9, biased)[1], 2e-6, 1e-12);
  norms.aligned_norm_squared = 1e-6;
  EXPECT_NEAR(gram_rounding(sums, 1000, 16384, norms).biased, 1e-11, 1e-16);
}

TEST(SpectrumError, AClusterAnswersForItsNumber) {
  std::vector<double> sigma(100, 0.1);
  for (int i = 0; i < 95; ++i) {
    sigma[static_cast<std::size_t>(i)] = 1.0 - 0.009 * i;
  }
  const Rounding rounding = {.entry = 1e-9};
  const std::vector<double> errors = eigenvalue_errors(sigma, rounding);
  EXPECT_NEAR(errors[0], 1e-8, 2e-14);
  EXPECT_NEAR(errors[99], 1e-9 * (10.0 + 4.0 * std::sqrt(4.0)), 1e-14);
  // More than a sixteenth of all: everything is rounded less randomly.
  for (int i = 80; i < 100; ++i) {
    sigma[static_cast<std::size_t>(i)] = 0.1;
  }
  EXPECT_GE(eigenvalue_errors(sigma, rounding)[0], 1e-9 * (10.0 + 4.0 * std::sqrt(19.0)));
  // And what is equal in it rounds alike.
  const Rounding narrow = {.entry = 1e-9, .relative = 1e-7, .shared_relative = 1e-7};
  const std::vector<double> alike = eigenvalue_errors(sigma, narrow);
  EXPECT_NEAR(alike[99] - eigenvalue_errors(sigma, rounding)[99],
              1e-7 * (12.0 + 0.19 * (4.0 + 200.0 * 0.01)), 2e-8);
}

TEST(SpectrumError, NeighboursAreCountedOneByOne) {
  // Distances between eigenvalues vary; every value has its own number within reach.
  constexpr double kEntry = 1e-3;
  std::vector<double> sigma;
  double square = 40.0;
  for (int i = 0; i < 400; ++i) {
    sigma.push_back(std::sqrt(square));
    square -= kEntry * (1.0 + 14.0 * std::abs(std::sin(0.37 * i)));
  }
  const std::vector<double> errors = eigenvalue_errors(sigma, {.entry = kEntry});
  std::int64_t most = 0;
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    std::int64_t others = 0;
    for (int round = 0; round < 8; ++round) {
      const double window = kEntry * (10.0 + 4.0 * std::sqrt(static_cast<double>(others)));
      const auto found = std::count_if(sigma.begin(), sigma.end(), [&](double other) {
        return std::abs(other * other - sigma[i] * sigma[i]) <= window;
      });
      if (found - 1 <= others) {
        break;
      }
      others = found - 1;
    }
    most = std::max<std::int64_t>(most, others);
    EXPECT_NEAR(errors[i], kEntry * (10.0 + 4.0 * std::sqrt(static_cast<double>(others))), 1e-9)
        << i;
  }
  EXPECT_GE(most, 4);
}

TEST(SpectrumError, ARootIsLeftOpenBelowItsError) {
  EXPECT_NEAR(root_error(1.0, 1e-8), 0.5e-8, 1e-12);
  EXPECT_NEAR(root_error(1e-6, 1e-8), 1e-4, 1.1e-6) << "up to the root of the error";
  EXPECT_EQ(root_error(0.0, 1e-8), 1e-4);
  EXPECT_EQ(root_error(0.5, 0.0), 0.0);
}

TEST(SpectrumError, NothingKnownIsNothingAnsweredFor) {
  for (const double error : eigenvalue_errors(std::vector<double>{2.0, 1.0}, Rounding{})) {
    EXPECT_TRUE(std::isnan(error));
  }
}

TEST(SpectrumError, RoundingGrowsWithItsPartsAndScalesWithTheWeights) {
  const GramNorms norms = {
      .sum_squares = 100.0, .gram_norm_squared = 50.0, .passes_norm_squared = 400.0};
  const Rounding rounding = gram_rounding({}, 1024, 4096, norms);
  EXPECT_EQ(rounding.relative, 0x1p-24);
  GramNorms scaled = norms;
  scaled.sum_squares *= 4.0;
  scaled.gram_norm_squared *= 16.0;
  scaled.passes_norm_squared *= 16.0;
  EXPECT_DOUBLE_EQ(gram_rounding({}, 1024, 4096, scaled).entry, 4.0 * rounding.entry);
  const Rounding wide =
      gram_rounding({.unit = 0x1p-53, .reduction_unit = 0x1p-53}, 1024, 4096, norms);
  EXPECT_DOUBLE_EQ(wide.entry, rounding.entry * 0x1p-29);
  EXPECT_LT(gram_rounding({.reduction_unit = 0x1p-53}, 1024, 4096, norms).entry, rounding.entry);
  EXPECT_EQ(passes_norm_squared(1025, 2.0), 32.0);
  EXPECT_EQ(passes_norm_squared(1, 2.0), 0.0);
}

// Sweeps round what passes leave, 32 of them to a pass, and say nothing where float64 does both.
TEST(SpectrumError, AChaseAndSturmCountsAddWhatTheyRound) {
  constexpr double kUnit = 0x1p-24;
  const GramNorms norms = {
      .sum_squares = 100.0, .gram_norm_squared = 50.0, .passes_norm_squared = 400.0};
  const GramArithmetic silent = {.unit = 0.0, .reduction_unit = 0.0};
  GramArithmetic chased = silent;
  chased.chase = kChase32;
  const Rounding chase = gram_rounding(chased, 1024, 4096, norms);
  EXPECT_NEAR(chase.entry, kUnit * std::sqrt(3.5 * 32.0 * 400.0) / 1024.0, 1e-6 * chase.entry);
  chased.chase = stored_chase32(7);
  const Rounding stored = gram_rounding(chased, 1024, 4096, norms);
  EXPECT_NEAR(stored.entry, std::sqrt(0.32 / 7.0 / 3.5) * chase.entry, 1e-6 * chase.entry);
  const Rounding former = gram_rounding({}, 1024, 4096, norms);
  chased = {};
  chased.chase = kChase32;
  chased.values_unit = kUnit;
  const Rounding all = gram_rounding(chased, 1024, 4096, norms);
  EXPECT_NEAR(all.entry, std::hypot(former.entry, chase.entry), 1e-6 * all.entry);
  EXPECT_GT(all.relative, former.relative);
  EXPECT_EQ(former.counts, 0.0);
  EXPECT_EQ(former.counts_relative, 0.0);
  const std::vector<double> sigma = {3.0, 0.1};
  Rounding counts = {.entry = 0.0, .counts_relative = 1e-6, .counts = 1e-5};
  const std::vector<double> errors = eigenvalue_errors(sigma, counts);
  EXPECT_NEAR(errors[1], 9e-6 + 1e-5, 1e-12) << "of every value";
  EXPECT_GE(matrix_error(2, 3.0, counts), errors[0]);
  EXPECT_GE(matrix_error_parts(2, 3.0, counts).each, 9e-6 + 1e-5);
  EXPECT_NEAR(largest_errors(std::vector<double>{9.0}, 2, counts)[0], errors[0], 1e-12);
}

// A diagonal Gram keeps rounding of its largest entry on one value; one whose diagonal is as flat
// as that of eigenvectors in any direction does not, and one between them in proportion.
TEST(SpectrumError, LinesOfUnequalNormAnswerForTheStrongestOne) {
  constexpr std::int64_t kP = 512;
  const double mean = 2.0;
  GramNorms norms = {.sum_squares = mean * kP,
                     .gram_norm_squared = 10.0 * mean * mean * kP,
                     .diagonal_norm_squared = 10.0 * mean * mean * kP,
                     .largest_diagonal = 9.0,
                     .passes_norm_squared = 1.0};
  const Rounding lines = gram_rounding({}, kP, 4096, norms);
  EXPECT_NEAR(lines.lone, 9.0 * 0x1p-24, 0.01 * 9.0 * 0x1p-24);
  EXPECT_NEAR(lines.repeated, 4.0 * 0x1p-24, 0.05 * 0x1p-24) << "sixteen passes of 32";
  norms.diagonal_norm_squared = mean * mean * kP * (1.0 + 9.0 * 2.0 / kP);
  const Rounding any = gram_rounding({}, kP, 4096, norms);
  EXPECT_EQ(any.lone, 0.0);
  EXPECT_EQ(any.repeated, 0.0);
  EXPECT_EQ(any.entry, lines.entry);
  norms.diagonal_norm_squared = mean * mean * kP * (1.0 + 9.0 * 0.25);
  EXPECT_NEAR(gram_rounding({}, kP, 4096, norms).lone, 0.5 * lines.lone, 0.01 * lines.lone);
  // A multiple of the identity: every direction is an eigenvector's.
  norms.gram_norm_squared = norms.diagonal_norm_squared = mean * mean * kP;
  EXPECT_DOUBLE_EQ(gram_rounding({}, kP, 4096, norms).lone, 9.0 * 0x1p-24);

  const std::vector<double> sigma = {3.0, 1.0, 0.1};
  const Rounding alone = {.entry = 3e-9, .lone = 0.5e-8, .repeated = 1e-7};
  const std::vector<double> errors = eigenvalue_errors(sigma, alone);
  EXPECT_NEAR(errors[2], std::hypot(3e-8, 4e-8) + 4e-7 * 0.01, 1e-13);
  EXPECT_NEAR(errors[0], std::hypot(3e-8, 4e-8) + 4e-7 * 9.0, 1e-13);
  EXPECT_GE(matrix_error(3, 3.0, alone), errors[0]);
}

}  // namespace
}  // namespace vindex::statistics::spectrum_error_test
