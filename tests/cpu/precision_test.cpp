// The choice of precision: which sums a first group of rows asks for, and what a reduction may
// round, for spectra that are known.
#include "cpu/plan/precision.hpp"

#include "backend/backend.hpp"
#include "cpu/gram/form_gram.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/gram/group_sums.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/route/plan_svd.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace vindex::cpu::precision_test {
namespace {

using test::FloatMatrix;

/// G of the first `rows` rows, upper triangle.
std::vector<double> gram_of(const FloatMatrix& matrix, std::int64_t rows) {
  const std::int64_t p = matrix.cols;
  std::vector<double> gram(static_cast<std::size_t>(p * p), 0.0);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < p; ++j) {
      const auto right = static_cast<double>(matrix.at(r, j));
      for (std::int64_t i = 0; i <= j; ++i) {
        gram[static_cast<std::size_t>(j * p + i)] += static_cast<double>(matrix.at(r, i)) * right;
      }
    }
  }
  return gram;
}

FirstGroup group_of(const std::vector<double>& gram, std::int64_t p, std::int64_t n,
                    std::int64_t rows) {
  FirstGroup group = {.p = p, .n = n, .chunk = 256, .rows = rows, .norms = {}};
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const double value = gram[static_cast<std::size_t>(j * p + i)];
      group.norms.gram_norm_squared += (i == j ? 1.0 : 2.0) * value * value;
      if (i == j) {
        group.norms.sum_squares += value;
        group.norms.diagonal_norm_squared += value * value;
        group.norms.largest_diagonal = std::max(group.norms.largest_diagonal, value);
      }
    }
  }
  return group;
}

SpectrumOutline outline(const std::vector<double>& gram, const FirstGroup& group,
                        Workspace& workspace) {
  return outline_of(gram.data(), group.p,
                    {.summed = group.rows,
                     .all = group.n,
                     .trace = group.norms.sum_squares,
                     .norm_squared = group.norms.gram_norm_squared},
                    workspace);
}

GramSums sums_of(const FloatMatrix& matrix) {
  const std::int64_t p = matrix.cols;
  const std::int64_t rows = std::min(matrix.rows, std::int64_t{1024});
  const std::vector<double> gram = gram_of(matrix, rows);
  const FirstGroup group = group_of(gram, p, matrix.rows, rows);
  Workspace workspace(0);
  return is_like_noise(group) ? GramSums::kNarrow
                              : choose_sums(group, outline(gram, group, workspace));
}

std::vector<double> values(std::int64_t p, double (*law)(double share, double index)) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < p; ++i) {
    out.push_back(law(static_cast<double>(i) / static_cast<double>(p - 1), static_cast<double>(i)));
  }
  return out;
}

constexpr std::int64_t kP = 512;

FloatMatrix with(double (*law)(double share, double index)) {
  return test::matrix_with_spectrum(1200, kP, values(kP, law), 3);
}

TEST(Precision, NoiseAndHeavyTailsAreSummedInFloat32) {
  EXPECT_EQ(sums_of(test::gaussian_matrix(1200, kP, 1)), GramSums::kNarrow);
  EXPECT_EQ(sums_of(test::gaussian_matrix(kP, kP, 2)), GramSums::kNarrow);
  EXPECT_EQ(sums_of(with([](double share, double index) {
              return std::pow(1.0 + index, -0.3) * (1.0 - 0.9 * share);
            })),
            GramSums::kNarrow);
}

TEST(Precision, WhatFallsFarIsSummedInGroups) {
  EXPECT_EQ(sums_of(with([](double share, double) { return std::pow(3e-3, share); })),
            GramSums::kGrouped);
  EXPECT_EQ(sums_of(with([](double share, double) { return std::pow(1e-4, share); })),
            GramSums::kWide)
      << "beyond float32 products";
  EXPECT_EQ(sums_of(with([](double, double index) { return 1.0 / (1.0 + index); })),
            GramSums::kGrouped);
}

TEST(Precision, AClusterFarBelowOneValueIsSummedInFloat64) {
  EXPECT_EQ(sums_of(with([](double, double index) { return index > 0.0 ? 1e-3 : 1.0; })),
            GramSums::kWide);
}

// Lines of unequal norm that are orthogonal: rounding of the strongest stays on one value, in sums
// of any group.
TEST(Precision, LinesThatAreEigenvectorsAreSummedInFloat64) {
  FloatMatrix matrix = test::matrix_with_spectrum(1200, kP, std::vector<double>(kP, 1.0), 3);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < kP; ++c) {
      matrix.at(r, c) *= static_cast<float>(std::pow(1e-3, static_cast<double>(c) / kP));
    }
  }
  EXPECT_EQ(sums_of(matrix), GramSums::kWide);
}

TEST(Precision, AnOutlineFollowsTheSpectrum) {
  const FloatMatrix matrix = with([](double share, double) { return std::pow(1e-2, share); });
  const std::vector<double> gram = gram_of(matrix, matrix.rows);
  Workspace workspace(0);
  const SpectrumOutline found = outline(gram, group_of(gram, kP, 1200, 1200), workspace);
  EXPECT_EQ(found.seen, 0.25);
  // s^2 falls to 1e-4: to a third from an eighth to a quarter. Within a factor of some.
  EXPECT_GT(found.level / found.half, 0.1);
  EXPECT_LT(found.level / found.half, 0.7);
  EXPECT_GT(found.level, 0.1 / 30.0);
  EXPECT_LT(found.level, 0.1);
  EXPECT_GT(found.quarter, found.half);
  EXPECT_GT(found.top, found.half);
  EXPECT_GT(last_level(found), 1e-4 / 30.0);
  EXPECT_LT(last_level(found), 1e-4 * 30.0);
  EXPECT_LE(workspace.peak_bytes(), outline_bytes(kP));
}

TEST(Precision, LinesThatAreZeroAreLeftOutOfAnOutline) {
  FloatMatrix matrix = test::gaussian_matrix(1200, kP, 5);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < kP; c += 2) {
      matrix.at(r, c) = 0.0F;
    }
  }
  const std::vector<double> gram = gram_of(matrix, matrix.rows);
  Workspace workspace(0);
  const SpectrumOutline found = outline(gram, group_of(gram, kP, 1200, 1200), workspace);
  EXPECT_GT(found.level, 0.7 * 1200.0) << "noise of half as many columns";
}

TEST(Precision, TheSmallerTheLastValuesTheLessMayBeRounded) {
  SpectrumOutline outline = {.trace = 100.0,
                             .norm_squared = 100.0,
                             .level = 0.1,
                             .half = 0.2,
                             .quarter = 0.3,
                             .seen = 0.5,
                             .top = 0.5};
  const double some = allowed_rounding(outline, 1024, 4096);
  EXPECT_GT(some, 0.0);
  outline.level = 0.02;
  const double less = allowed_rounding(outline, 1024, 4096);
  EXPECT_LT(less, 0.5 * some);
  EXPECT_GT(less, 0.0);
  outline.level = 1e-6;
  EXPECT_EQ(allowed_rounding(outline, 1024, 4096), 0.0) << "beyond float32";
  EXPECT_EQ(allowed_rounding({}, 1024, 4096), 0.0) << "nothing is known";
}

TEST(Precision, AFallGoesOnAsItWasFound) {
  const auto level_at = [](double (*law)(double), double seen) {
    return last_level(
        {.level = law(seen), .half = law(seen / 2), .quarter = law(seen / 4), .seen = seen});
  };
  const auto geometric = [](double share) { return std::pow(1e-6, share); };
  const auto power = [](double share) { return 1.0 / (share * share); };
  for (const double seen : {0.25, 0.5}) {
    EXPECT_NEAR(level_at(geometric, seen), 1e-6, 1e-9);
    EXPECT_NEAR(level_at(power, seen), 1.0, 1e-6);
  }
  EXPECT_EQ(last_level({}), 0.0);
}

TEST(Precision, GroupsAreWholeChunksAndAddByTheirSquares) {
  EXPECT_EQ(first_group_rows(1024, 256), 1024);
  EXPECT_EQ(first_group_rows(4096, 256), 2048);
  EXPECT_EQ(first_group_rows(4096, 384), 2304);
  const double thousand = 1024.0 * 1024.0 * 1024.0;
  EXPECT_EQ(like_groups(4.0 * thousand, 4096), 1024);
  EXPECT_EQ(like_groups(64.0 * thousand, 4096), 4096);
}

// All rows in one sum of float32 as against groups: what groups hold is nearer to the exact sum.
TEST(GroupSums, HoldWhatOneSumOfFloat32Loses) {
  constexpr std::int64_t kRows = 8192;
  constexpr std::int64_t kSide = 256;
  const SvdPlan plan = {.row_slabs = true, .short_side = kSide, .long_side = kRows, .chunk = 256};
  // One value holds nearly all, and a few hundredths of it the rest, so that the sums are grouped.
  FloatMatrix matrix = test::matrix_with_spectrum(
      kRows, kSide, values(kSide, [](double, double index) { return 1.0 / (1.0 + index); }), 3);
  const std::vector<double> exact = gram_of(matrix, kRows);
  Workspace workspace(0);
  std::vector<float> partial(kSide * kSide, 0.0F);
  std::vector<float> one_sum(kSide * kSide, 0.0F);
  GroupSums groups(plan, partial.data(), workspace);
  for (std::int64_t first = 0; first < kRows; first += 256) {
    const Tile tile = {.values = &matrix.values[static_cast<std::size_t>(first * kSide)],
                       .rows = 256,
                       .cols = kSide,
                       .first = first};
    groups.see(tile, 0.0);
    add_to_gram(tile, true, partial.data());
    add_to_gram(tile, true, one_sum.data());
    groups.added(256);
  }
  groups.finish();
  ASSERT_EQ(groups.kind(), GramSums::kGrouped);
  EXPECT_EQ(groups.like_groups(), 1024);
  double grouped_error = 0.0;
  double plain_error = 0.0;
  for (std::int64_t j = 0; j < kSide; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const auto at = static_cast<std::size_t>(j * kSide + i);
      grouped_error += std::pow(groups.matrix()[j * kSide + i] - exact[at], 2.0);
      plain_error += std::pow(static_cast<double>(one_sum[at]) - exact[at], 2.0);
    }
  }
  EXPECT_LT(grouped_error, 0.25 * plain_error);
}

// Outlier rows behind the first group are seen, and so is the rounding of sums of one sign, in
// every pass of float32 sums: by the library, by vector instructions or by tiles.
TEST(FormGram, SaysWhatItSawOfLinesAndOfSumsOfOneSign) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kSide = 128;
  FloatMatrix matrix = test::gaussian_matrix(kRows, kSide, 3, 0.02);
  for (std::int64_t c = 0; c < kSide; ++c) {
    matrix.at(1100, c) *= 100.0F;
  }
  double lines = 0.0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    double line = 0.0;
    for (std::int64_t c = 0; c < kSide; ++c) {
      line += std::pow(static_cast<double>(matrix.at(r, c)), 2.0);
    }
    lines += line * line;
  }
  for (const bool is_turned : {false, true}) {
    const FloatMatrix stored = is_turned ? test::transposed(matrix) : matrix;
    const decode::EncodedMatrix view =
        decode::float32_view(stored.values.data(), stored.rows, stored.cols);
    const auto input = make_memory_input(view);
    const SvdPlan plan = plan_svd({.rows = stored.rows,
                                   .cols = stored.cols,
                                   .encoding = view.encoding,
                                   .options = {.escalate = false}});
    Workspace workspace(plan.workspace_bytes);
    TileReader reader(*input, plan, workspace);
    TileChange change;
    std::vector<float> gram(kSide * kSide);
    double seconds = 0.0;
    const FormedGram formed = form_gram(reader, plan, change, workspace, gram.data(), seconds);
    EXPECT_EQ(formed.depth, 256);
    EXPECT_NEAR(formed.line_norms_squared, lines, 1e-12 * lines);
    const double norm_squared = symmetric_norm_squared(gram.data(), kSide);
    EXPECT_GT(formed.aligned_norm_squared, 0.05 * norm_squared) << "one row has half of it";
    EXPECT_LT(formed.aligned_norm_squared, norm_squared);
    EXPECT_GT(formed.diagonal_rounding, 0x1p-26);
    EXPECT_LT(formed.diagonal_rounding, 0x1p-19);
  }
}

TEST(GramNorms, FindEntriesThatAreSumsOfTheirLines) {
  constexpr std::int64_t kOrder = 160;
  FloatMatrix matrix{kOrder, kOrder, std::vector<float>(kOrder * kOrder, 0.3F)};
  for (std::int64_t i = 0; i < kOrder; ++i) {
    matrix.at(i, i) += static_cast<float>(1 + i * 99 % kOrder);
  }
  const std::vector<double> gram = gram_of(matrix, kOrder);
  const double off_diagonal = symmetric_norm_squared(gram.data(), kOrder) -
                              diagonal_norms(gram.data(), kOrder).norm_squared;
  EXPECT_NEAR(additive_norm_squared(gram.data(), kOrder), off_diagonal, 0.2 * off_diagonal);
  const std::vector<double> noise = gram_of(test::gaussian_matrix(kOrder, kOrder, 1), kOrder);
  EXPECT_EQ(additive_norm_squared(noise.data(), kOrder), 0.0);
}

}  // namespace
}  // namespace vindex::cpu::precision_test
