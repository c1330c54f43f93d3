// Cosines and spectrum along the axis of experts: by hand, under permutation, with experts that do
// not count, near cancellation, and their nulls against drawn noise.
#include "statistics/experts/expert_axis.hpp"

#include "statistics/experts/centred_cosines.hpp"
#include "statistics/experts/cosine_summary.hpp"
#include "statistics/experts/expert_nulls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

extern "C" void dsyev_(const char* job, const char* uplo, const int* n, double* a, const int* lda,
                       double* w, double* work, const int* work_size, int* info, std::size_t,
                       std::size_t);

namespace vindex::statistics::expert_axis_test {
namespace {

using Vectors = std::vector<std::vector<double>>;

std::vector<double> gram_of(const Vectors& vectors) {
  std::vector<double> gram;
  for (const auto& a : vectors) {
    for (const auto& b : vectors) {
      gram.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
    }
  }
  return gram;
}

ExpertCosines cosines_of(const Vectors& vectors) {
  return expert_cosines(gram_of(vectors), std::vector<bool>(vectors.size(), true),
                        static_cast<double>(vectors.front().size()));
}

/// Of `matrix`, which is destroyed.
std::vector<double> eigenvalues_of(std::span<double> matrix, std::int64_t side,
                                   const std::stop_token& /*stop*/) {
  const int n = static_cast<int>(side);
  std::vector<double> values(static_cast<std::size_t>(n));
  std::vector<double> work(static_cast<std::size_t>(40 * n));
  const int size = static_cast<int>(work.size());
  int info = 0;
  dsyev_("N", "U", &n, matrix.data(), &n, values.data(), work.data(), &size, &info, 1, 1);
  EXPECT_EQ(info, 0);
  return values;
}

std::vector<double> eigenvalues(std::vector<double> matrix) {
  return eigenvalues_of(matrix, std::lround(std::sqrt(static_cast<double>(matrix.size()))), {});
}

Vectors noise(std::size_t count, std::size_t length, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Vectors out(count, std::vector<double>(length));
  for (auto& vector : out) {
    for (double& value : vector) {
      value = normal(random);
    }
  }
  return out;
}

TEST(ExpertAxis, ByHand) {
  // (2, 0), (1, 1), (0, 2): mean (1, 1), centred (1, -1), (0, 0), (-1, 1).
  const ExpertCosines found = cosines_of({{2, 0}, {1, 1}, {0, 2}});
  const double half = std::sqrt(0.5);
  EXPECT_FLOAT_EQ(found.cosine[1], static_cast<float>(half));
  EXPECT_EQ(found.cosine[2], 0.0F);
  EXPECT_EQ(found.cosine[4], 1.0F);
  EXPECT_DOUBLE_EQ(found.plain.mean, 2.0 * half / 3.0);
  EXPECT_DOUBLE_EQ(found.plain.max, half);
  EXPECT_EQ(found.plain.expert, 0);
  EXPECT_EQ(found.plain.other, 1);
  EXPECT_EQ(found.norm, (std::vector<double>{2.0, std::sqrt(2.0), 2.0}));
  EXPECT_FLOAT_EQ(found.cosine_centred[2], -1.0F);
  EXPECT_TRUE(std::isnan(found.cosine_centred[1]));  // the second one is the mean
  EXPECT_NE(found.reason.find("expert 1: equals the mean expert"), std::string::npos);
  EXPECT_DOUBLE_EQ(found.mean_share, 2.0 / (10.0 / 3.0));
  EXPECT_DOUBLE_EQ(found.mean_share_null, 1.0 / 3.0);
  EXPECT_EQ(found.plain.null, 0.0);
  EXPECT_DOUBLE_EQ(found.plain.null_sd, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(found.centred.null, -0.5);
  const ExpertSpectrum spectrum =
      expert_spectrum(eigenvalues(found.centred_gram), 4, 2, ExpertNulls{});
  EXPECT_NEAR(spectrum.values[0], 4.0, 1e-12);
  EXPECT_NEAR(spectrum.values[1], 0.0, 1e-12);
  EXPECT_TRUE(std::isnan(spectrum.values[3]));  // padding
  EXPECT_EQ(spectrum.rank_90, 1.0);
  EXPECT_NEAR(spectrum.effective_rank, 1.0, 1e-12);
}

TEST(ExpertAxis, AnEffectiveRankIsNoLargerThanTheNumberOfDirections) {
  for (std::int64_t experts = 2; experts <= 400; ++experts) {
    // As far from their mean in every direction; what is left of the mean is rounding.
    std::vector<double> equal(static_cast<std::size_t>(experts), 0.7);
    equal.front() = 1e-17;
    const auto most = static_cast<double>(experts - 1);
    const double rank = expert_spectrum(equal, experts, 1000, ExpertNulls{}).effective_rank;
    EXPECT_LE(rank, most);
    EXPECT_NEAR(rank, most, 1e-9 * most);
    // And in one.
    std::vector<double> single(static_cast<std::size_t>(experts), 0.0);
    single.back() = 0.7;
    EXPECT_GE(expert_spectrum(single, experts, 1000, ExpertNulls{}).effective_rank, 1.0);
  }
}

TEST(ExpertAxis, PermutedExpertsPermuteTheResult) {
  std::mt19937_64 random(3);
  const Vectors vectors = noise(7, 50, random);
  const std::vector<std::size_t> order = {4, 0, 6, 2, 1, 5, 3};
  Vectors permuted;
  for (const std::size_t i : order) {
    permuted.push_back(vectors[i]);
  }
  const ExpertCosines a = cosines_of(vectors);
  const ExpertCosines b = cosines_of(permuted);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_DOUBLE_EQ(b.norm[i], a.norm[order[i]]);
    for (std::size_t j = 0; j < 7; ++j) {
      EXPECT_FLOAT_EQ(b.cosine[i * 7 + j], a.cosine[order[i] * 7 + order[j]]);
      EXPECT_NEAR(b.cosine_centred[i * 7 + j], a.cosine_centred[order[i] * 7 + order[j]], 1e-6);
    }
  }
  EXPECT_NEAR(a.plain.mean, b.plain.mean, 1e-14);
  EXPECT_EQ(a.plain.max, b.plain.max);
  const auto spectrum_a = eigenvalues(a.centred_gram);
  const auto spectrum_b = eigenvalues(b.centred_gram);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(spectrum_a[i], spectrum_b[i], 1e-10);
  }
}

TEST(ExpertAxis, WhatDoesNotCountIsNaNAndNobodyElseNotices) {
  std::mt19937_64 random(4);
  Vectors vectors = noise(6, 40, random);
  const Vectors kept = {vectors[0], vectors[2], vectors[3], vectors[5]};
  const ExpertCosines wanted = cosines_of(kept);
  std::vector<double> gram = gram_of(vectors);
  for (std::size_t j = 0; j < 6; ++j) {
    gram[4 * 6 + j] = gram[j * 6 + 4] = std::nan("");
  }
  const ExpertCosines found = expert_cosines(gram, {true, false, true, true, true, true}, 40.0);
  EXPECT_EQ(found.counted, 4);
  EXPECT_EQ(found.reason, "expert 4: weights that are not finite");
  const std::vector<std::size_t> place = {0, 2, 3, 5};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(found.cosine[place[i] * 6 + place[j]], wanted.cosine[i * 4 + j]);
      EXPECT_EQ(found.cosine_centred[place[i] * 6 + place[j]], wanted.cosine_centred[i * 4 + j]);
    }
  }
  for (const std::size_t lost : {1U, 4U}) {
    EXPECT_TRUE(std::isnan(found.norm[lost]));
    for (std::size_t j = 0; j < 6; ++j) {
      EXPECT_TRUE(std::isnan(found.cosine[lost * 6 + j]));
      EXPECT_TRUE(std::isnan(found.cosine_centred[j * 6 + lost]));
    }
  }
}

TEST(ExpertAxis, EqualExpertsHaveNoCentredCosine) {
  Vectors equal(4, std::vector<double>(30, 0.25));
  std::vector<double> gram = gram_of(equal);
  std::mt19937 random(6);
  std::uniform_real_distribution<double> rounding(-1e-7, 1e-7);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < i; ++j) {  // what float32 sums leave
      gram[i * 4 + j] *= 1.0 + rounding(random);
      gram[j * 4 + i] = gram[i * 4 + j];
    }
  }
  const ExpertCosines found = expert_cosines(gram, std::vector<bool>(4, true), 30.0);
  EXPECT_NEAR(found.plain.mean, 1.0, 1e-6);
  EXPECT_TRUE(std::isnan(found.centred.mean));
  EXPECT_NEAR(found.mean_share, 1.0, 1e-6);
}

TEST(ExpertAxis, OneOrNoExpert) {
  const ExpertCosines one = cosines_of({{1.0, 2.0}});
  EXPECT_EQ(one.counted, 1);
  EXPECT_EQ(one.cosine[0], 1.0F);
  EXPECT_TRUE(std::isnan(one.plain.mean));
  EXPECT_EQ(one.reason, "fewer than two experts");
  EXPECT_TRUE(one.centred_gram.empty());
  const ExpertCosines zero = cosines_of({{0.0, 0.0}, {1.0, 0.0}});
  EXPECT_TRUE(std::isnan(zero.cosine[1]));
  EXPECT_NE(zero.reason.find("expert 0: all zeros"), std::string::npos);
}

TEST(ExpertAxis, NullsOfManyExpertsByHand) {
  CosineSummary null;
  fill_plain_nulls(384, 7168.0 * 2048.0, null);
  EXPECT_DOUBLE_EQ(null.null_sd, 1.0 / std::sqrt(7168.0 * 2048.0));
  EXPECT_DOUBLE_EQ(null.null_mean_sd, std::sqrt(2.0 / (384.0 * 383.0 * 7168.0 * 2048.0)));
  EXPECT_NEAR(null.null_sd / null.null_mean_sd, 271.2, 0.1);
  CosineSummary two;
  fill_centred_nulls(std::vector<double>{3.0, 2.0}, 50.0,
                     two);  // centred, they are each other's negative
  EXPECT_EQ(two.null_mean, -1.0);
  EXPECT_EQ(two.null_mean_sd, 0.0);
  EXPECT_EQ(two.null_most, -1.0);
}

TEST(LargestNormal, AgreesWithTables) {
  // Harter, "Expected values of normal order statistics", Biometrika 48 (1961); variances:
  // Teichroew, Ann. Math. Statist. 27 (1956).
  EXPECT_NEAR(largest_normal(1).mean, 0.0, 1e-9);
  EXPECT_NEAR(largest_normal(1).deviation, 1.0, 1e-9);
  EXPECT_NEAR(largest_normal(2).mean, 1.0 / std::sqrt(std::acos(-1.0)), 1e-9);
  EXPECT_NEAR(std::pow(largest_normal(2).deviation, 2), 1.0 - 1.0 / std::acos(-1.0), 1e-9);
  EXPECT_NEAR(largest_normal(10).mean, 1.53875, 1e-5);
  EXPECT_NEAR(std::pow(largest_normal(10).deviation, 2), 0.34434, 1e-5);
  EXPECT_NEAR(largest_normal(100).mean, 2.50759, 1e-5);
  // Beyond tables: the Gumbel law's leading terms.
  EXPECT_NEAR(largest_normal(1e6).mean, 4.86, 0.01);
}

/// Mean and standard deviation of draws.
struct Draws {
  double sum = 0.0, squares = 0.0, count = 0.0;
  void add(double value) {
    sum += value;
    squares += value * value;
    count += 1.0;
  }
  double mean() const { return sum / count; }
  double sd() const { return std::sqrt(squares / count - mean() * mean()); }
};

/// As many experts as `norms`, of independent directions.
Vectors of_norms(const std::vector<double>& norms, std::size_t length, std::mt19937_64& random) {
  Vectors out = noise(norms.size(), length, random);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const double scale =
        norms[i] / std::sqrt(std::inner_product(out[i].begin(), out[i].end(), out[i].begin(), 0.0));
    for (double& value : out[i]) {
      value *= scale;
    }
  }
  return out;
}

std::vector<double> log_normal(std::size_t count, double spread, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> out(count);
  std::generate(out.begin(), out.end(), [&] { return std::exp(spread * normal(random)); });
  return out;
}

TEST(ExpertAxis, NullsAgainstAThousandDraws) {
  // The nulls of one pair and of plain cosines hold whatever the norms are.
  constexpr std::size_t kExperts = 8;
  constexpr std::size_t kLength = 200;
  std::mt19937_64 random(20);
  Draws plain, centred, plain_mean, plain_most, share;
  ExpertCosines one;
  for (int draw = 0; draw < 1000; ++draw) {
    one = cosines_of(noise(kExperts, kLength, random));
    plain.add(static_cast<double>(one.cosine[1]));
    centred.add(static_cast<double>(one.cosine_centred[1]));
    plain_mean.add(one.plain.mean);
    plain_most.add(one.plain.max);
    share.add(one.mean_share);
  }
  const double standard_error = one.plain.null_sd / std::sqrt(1000.0);
  EXPECT_NEAR(plain.mean(), one.plain.null, 4.0 * standard_error);
  EXPECT_NEAR(plain.sd() / one.plain.null_sd, 1.0, 0.1);
  EXPECT_NEAR(centred.mean(), one.centred.null, 4.0 * standard_error);
  EXPECT_NEAR(centred.sd() / one.centred.null_sd, 1.0, 0.1);
  EXPECT_EQ(one.plain.null_mean, 0.0);
  EXPECT_NEAR(plain_mean.mean(), 0.0, 4.0 * one.plain.null_mean_sd / std::sqrt(1000.0));
  EXPECT_NEAR(plain_mean.sd() / one.plain.null_mean_sd, 1.0, 0.1);
  EXPECT_NEAR(plain_most.mean(), one.plain.null_most, 0.1 * one.plain.null_sd);
  EXPECT_NEAR(plain_most.sd() / one.plain.null_most_sd, 1.0, 0.1);
  EXPECT_NEAR(share.mean() / one.mean_share_null, 1.0, 0.02);
}

/// What was drawn against a null, in its deviations.
void expect_null(const char* what, const Draws& drawn, const DrawnStatistic& null) {
  // Of draws that do not differ nothing but rounding is left.
  const double sd = std::max(null.deviation, 1e-12 * std::abs(null.mean));
  EXPECT_NEAR((drawn.mean() - null.mean) / sd, 0.0, 0.2) << what;
  if (null.deviation > 1e-12) {
    EXPECT_NEAR(drawn.sd() / null.deviation, 1.0, 0.25) << what;
  }
}

TEST(ExpertAxis, CentredNullsAreThoseOfTheNorms) {
  std::mt19937_64 random(21);
  for (const std::size_t experts : {3U, 4U, 5U, 12U, 40U}) {
    for (const double spread : {0.0, 0.2, 0.8}) {
      SCOPED_TRACE(::testing::Message() << experts << " experts, norms exp(" << spread << " z)");
      const std::vector<double> norms = log_normal(experts, spread, random);
      const std::size_t length = 60 * experts;
      Draws mean, most, rank_90, effective_rank;
      std::vector<double> shares(experts, 0.0);
      const int draws = experts < 20 ? 1000 : 300;
      ExpertCosines one;
      for (int draw = 0; draw < draws; ++draw) {
        one = cosines_of(of_norms(norms, length, random));
        const ExpertSpectrum spectrum =
            expert_spectrum(eigenvalues(one.centred_gram), static_cast<std::int64_t>(experts),
                            static_cast<std::int64_t>(length), ExpertNulls{});
        mean.add(one.centred.mean);
        most.add(one.centred.max);
        rank_90.add(spectrum.rank_90);
        effective_rank.add(spectrum.effective_rank);
        const double trace = std::accumulate(spectrum.values.begin(), spectrum.values.end(), 0.0);
        for (std::size_t i = 0; i < experts; ++i) {
          shares[i] += spectrum.values[i] / trace / draws;
        }
      }
      const ExpertNulls nulls =
          draw_expert_nulls(one.counted_norms, static_cast<std::int64_t>(length), eigenvalues_of);
      // Sums of 300 draws and of a few hundred are known to a tenth of a deviation.
      expect_null("effective_rank", effective_rank, nulls.effective_rank);
      expect_null("rank_90", rank_90, nulls.rank_90);
      for (std::size_t i = 0; i + 1 < experts; ++i) {
        EXPECT_NEAR(nulls.shares[i] / shares[i], 1.0, 0.01) << i;
      }
      const CosineSummary& law = one.centred;
      if (nulls.draws >= kEnoughDraws) {
        expect_null("cosine_mean", mean, nulls.cosine_mean);
        expect_null("cosine_max", most, nulls.cosine_max);
      } else {
        expect_null("mean by law", mean, {law.null_mean, law.null_mean_sd});
        expect_null("max by law", most, {law.null_most, law.null_most_sd});
      }
      EXPECT_NEAR(law.null, -1.0 / static_cast<double>(experts - 1), 1e-15);
    }
  }
}

TEST(ExpertAxis, NormsAloneAreNoFinding) {
  // 64 experts of a million weights whose norms differ by a fifth: beside nulls for equal norms the
  // largest centred cosine lies a dozen deviations out. Drawn with normal cosines.
  std::mt19937_64 random(22);
  std::normal_distribution<double> normal;
  constexpr std::size_t kExperts = 64;
  constexpr double kLength = 1e6;
  const std::vector<double> norms = log_normal(kExperts, 0.2, random);
  std::vector<double> gram(kExperts * kExperts);
  for (std::size_t i = 0; i < kExperts; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double cosine = i == j ? 1.0 : normal(random) / std::sqrt(kLength);
      gram[i * kExperts + j] = gram[j * kExperts + i] = cosine * norms[i] * norms[j];
    }
  }
  const ExpertCosines found = expert_cosines(gram, std::vector<bool>(kExperts, true), kLength);
  const CosineSummary& centred = found.centred;
  EXPECT_LT(std::abs(centred.max - centred.null_most), 4.0 * centred.null_most_sd);
  const double equal = -1.0 / 63.0 + 4.5e-3;  // of equal norms: 3.5 sd of a pair, and more
  EXPECT_GT(centred.max - equal, 1e-3);
  // Two experts without any weight have the same difference from the mean.
  std::vector<double> two_small = norms;
  two_small[3] = two_small[9] = 0.0;
  CosineSummary small;
  fill_centred_nulls(two_small, kLength, small);
  EXPECT_NEAR(small.null_most, 1.0, 1e-9);
  EXPECT_LT(small.null_most_sd, 1e-6);
}

}  // namespace
}  // namespace vindex::statistics::expert_axis_test
