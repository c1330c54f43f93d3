// Cosines and spectrum along the axis of experts: by hand, under permutation, with experts that do
// not count, near cancellation, and their nulls against drawn noise.
#include "measure/expert_axis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

extern "C" void dsyev_(const char* job, const char* uplo, const int* n, double* a, const int* lda,
                       double* w, double* work, const int* work_size, int* info, std::size_t,
                       std::size_t);

namespace vindex::measure::expert_axis_test {
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

std::vector<double> eigenvalues(std::vector<double> matrix) {
  const int n = static_cast<int>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
  std::vector<double> values(static_cast<std::size_t>(n));
  std::vector<double> work(static_cast<std::size_t>(40 * n));
  const int size = static_cast<int>(work.size());
  int info = 0;
  dsyev_("N", "U", &n, matrix.data(), &n, values.data(), work.data(), &size, &info, 1, 1);
  EXPECT_EQ(info, 0);
  return values;
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
  const ExpertSpectrum spectrum = expert_spectrum(eigenvalues(found.centred_gram), 4, 2);
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
    const double rank = expert_spectrum(equal, experts, 1000).effective_rank;
    EXPECT_LE(rank, most);
    EXPECT_NEAR(rank, most, 1e-9 * most);
    // And in one.
    std::vector<double> single(static_cast<std::size_t>(experts), 0.0);
    single.back() = 0.7;
    EXPECT_GE(expert_spectrum(single, experts, 1000).effective_rank, 1.0);
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
  fill_nulls(384, 7168.0 * 2048.0, false, null);
  EXPECT_DOUBLE_EQ(null.null_sd, 1.0 / std::sqrt(7168.0 * 2048.0));
  EXPECT_DOUBLE_EQ(null.null_mean_sd, std::sqrt(2.0 / (384.0 * 383.0 * 7168.0 * 2048.0)));
  EXPECT_NEAR(null.null_sd / null.null_mean_sd, 271.2, 0.1);
  CosineSummary two;
  fill_nulls(2, 50.0, true, two);  // centred, they are each other's negative
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

TEST(ExpertAxis, NullsAgainstAThousandDraws) {
  constexpr std::size_t kExperts = 8;
  constexpr std::size_t kLength = 200;
  std::mt19937_64 random(20);
  Draws plain, centred, plain_mean, centred_mean, plain_most, centred_most, share, rank_90;
  Draws effective_rank;
  std::vector<Draws> values(kExperts - 1);
  ExpertCosines one;
  ExpertSpectrum spectrum;
  std::vector<double> null_shares(kExperts - 1, 0.0);
  for (int draw = 0; draw < 1000; ++draw) {
    one = cosines_of(noise(kExperts, kLength, random));
    spectrum = expert_spectrum(eigenvalues(one.centred_gram), kExperts, kLength);
    plain.add(static_cast<double>(one.cosine[1]));
    centred.add(static_cast<double>(one.cosine_centred[1]));
    plain_mean.add(one.plain.mean);
    centred_mean.add(one.centred.mean);
    plain_most.add(one.plain.max);
    centred_most.add(one.centred.max);
    share.add(one.mean_share);
    rank_90.add(spectrum.rank_90);
    effective_rank.add(spectrum.effective_rank);
    const double trace = std::accumulate(spectrum.values.begin(), spectrum.values.end(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].add(spectrum.values[i] / trace);
      null_shares[i] = spectrum.null_values[i] / trace;
    }
  }
  const double standard_error = one.plain.null_sd / std::sqrt(1000.0);
  EXPECT_NEAR(plain.mean(), one.plain.null, 4.0 * standard_error);
  EXPECT_NEAR(plain.sd() / one.plain.null_sd, 1.0, 0.1);
  EXPECT_NEAR(centred.mean(), one.centred.null, 4.0 * standard_error);
  EXPECT_NEAR(centred.sd() / one.centred.null_sd, 1.0, 0.1);
  const double root = std::sqrt(1000.0);
  EXPECT_EQ(one.plain.null_mean, 0.0);
  EXPECT_NEAR(plain_mean.mean(), 0.0, 4.0 * one.plain.null_mean_sd / root);
  EXPECT_NEAR(plain_mean.sd() / one.plain.null_mean_sd, 1.0, 0.1);
  EXPECT_NEAR(centred_mean.mean(), one.centred.null_mean, 4.0 * one.centred.null_mean_sd / root);
  EXPECT_NEAR(centred_mean.sd() / one.centred.null_mean_sd, 1.0, 0.1);
  EXPECT_NEAR(plain_most.mean(), one.plain.null_most, 0.1 * one.plain.null_sd);
  EXPECT_NEAR(centred_most.mean(), one.centred.null_most, 0.15 * one.centred.null_sd);
  EXPECT_NEAR(plain_most.sd() / one.plain.null_most_sd, 1.0, 0.1);
  EXPECT_NEAR(centred_most.sd() / one.centred.null_most_sd, 1.0, 0.1);
  EXPECT_NEAR(share.mean() / one.mean_share_null, 1.0, 0.02);
  EXPECT_NEAR(rank_90.mean(), spectrum.rank_90_null, 0.6);
  EXPECT_NEAR(effective_rank.mean() / spectrum.effective_rank_null, 1.0, 0.01);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i].mean() / null_shares[i], 1.0, 0.02) << i;
  }
}

}  // namespace
}  // namespace vindex::measure::expert_axis_test
