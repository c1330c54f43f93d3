// Losses and divergences beside plain loops in long double, whatever the pieces; extreme logits;
// errors by prompt beside the textbook's, and beside draws.
#include "statistics/activations/token_losses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vindex::statistics::token_losses_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNot = std::numeric_limits<float>::quiet_NaN();

/// A multiple of 2^-32 in [0, 1), the same in every run.
double uniform(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<double>(state >> 32U) * 0x1p-32;
}

std::vector<float> drawn_logits(std::size_t count, double spread, double shift,
                                std::uint64_t seed) {
  std::vector<float> out(count);
  for (float& logit : out) {
    logit = static_cast<float>(shift + spread * (uniform(seed) + uniform(seed) - 1.0));
  }
  return out;
}

/// softmax without care for anything but truth.
std::vector<long double> softmax(const std::vector<float>& logits) {
  const long double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<long double> out;
  long double total = 0.0L;
  for (const float logit : logits) {
    out.push_back(std::exp(static_cast<long double>(logit) - largest));
    total += out.back();
  }
  for (long double& share : out) {
    share /= total;
  }
  return out;
}

LogitPair pair_of(const std::vector<float>& a, const std::vector<float>& b, std::int64_t target,
                  std::size_t piece) {
  LogitPair pair(target);
  for (std::size_t first = 0; first < a.size(); first += piece) {
    const std::size_t count = std::min(piece, a.size() - first);
    pair.add(std::span(a).subspan(first, count), std::span(b).subspan(first, count),
             static_cast<std::int64_t>(first));
  }
  return pair;
}

TEST(TokenLosses, AreThoseOfPlainSumsForEveryCut) {
  for (const double spread : {0.1, 5.0, 60.0}) {
    const std::vector<float> a = drawn_logits(1000, spread, 80.0, 1);
    std::vector<float> b = drawn_logits(1000, spread, -35.0, 2);
    b[17] = b[400] = a[3];
    const std::vector<long double> p = softmax(a);
    const std::vector<long double> q = softmax(b);
    long double entropy = 0.0L;
    long double divergence = 0.0L;
    for (std::size_t i = 0; i < p.size(); ++i) {
      entropy -= p[i] > 0.0L ? p[i] * std::log(p[i]) : 0.0L;
      divergence += p[i] > 0.0L ? p[i] * (std::log(p[i]) - std::log(q[i])) : 0.0L;
    }
    for (const std::size_t piece : {1U, 7U, 256U, 1000U}) {
      const LogitPair pair = pair_of(a, b, 400, piece);
      ASSERT_TRUE(pair.is_distribution());
      EXPECT_NEAR(pair.a().loss(), static_cast<double>(-std::log(p[400])), 1e-12);
      EXPECT_NEAR(pair.b().loss(), static_cast<double>(-std::log(q[400])), 1e-12);
      EXPECT_NEAR(pair.a().entropy(), static_cast<double>(entropy), 1e-12);
      EXPECT_NEAR(pair.divergence(), static_cast<double>(divergence), 1e-11);
      EXPECT_EQ(pair.a().first_choice(), std::max_element(p.begin(), p.end()) - p.begin());
      EXPECT_EQ(pair.b().first_choice(), 17);  // the first of two that are equal
    }
  }
}

TEST(TokenLosses, LikeliestEntriesAreThoseOfASort) {
  for (const std::size_t count : {3U, 8U, 500U}) {
    const std::vector<float> logits = drawn_logits(count, 6.0, -90.0, count);
    std::vector<long double> shares = softmax(logits);
    std::sort(shares.rbegin(), shares.rend());
    long double mass = 0.0L;
    for (std::size_t i = 0; i < std::min<std::size_t>(8, count); ++i) {
      mass += shares[i];
    }
    for (const std::size_t piece : {1U, 5U, 500U}) {
      LogitSums sums;
      LikeliestEntries top;
      for (std::size_t first = 0; first < count; first += piece) {
        const auto part = std::span(logits).subspan(first, std::min(piece, count - first));
        sums.add(part, static_cast<std::int64_t>(first));
        top.add(part);
      }
      EXPECT_NEAR(top.mass(sums), static_cast<double>(mass), 1e-12);
    }
  }
}

TEST(TokenLosses, LogitsOfAnySizeAreNoDifficulty) {
  const std::vector<float> a = {3e38F, -3e38F, 2.9e38F};
  LogitSums sums(1);
  sums.add(a, 0);
  EXPECT_EQ(sums.entropy(), 0.0);
  EXPECT_DOUBLE_EQ(sums.loss(), 2.0 * static_cast<double>(3e38F));
  // Equal logits: the uniform law, wherever they lie.
  for (const float level : {-3e38F, -1e4F, 0.0F, 1e4F}) {
    const LogitPair pair =
        pair_of(std::vector<float>(64, level), std::vector<float>(64, 1.0F), 9, 16);
    EXPECT_DOUBLE_EQ(pair.a().loss(), std::log(64.0));
    EXPECT_DOUBLE_EQ(pair.a().entropy(), std::log(64.0));
    EXPECT_EQ(pair.divergence(), 0.0);
  }
}

TEST(TokenLosses, MaskedEntriesHaveNoShare) {
  const std::vector<float> a = {-kInf, -kInf, 1.0F, 2.0F, -kInf};
  const std::vector<float> b = {0.0F, -kInf, 2.0F, 1.0F, 3.0F};
  for (const std::size_t piece : {1U, 2U, 5U}) {
    const LogitPair pair = pair_of(a, b, 0, piece);
    ASSERT_TRUE(pair.is_distribution());
    EXPECT_EQ(pair.a().loss(), std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isfinite(pair.divergence()));
    EXPECT_EQ(pair_of(b, a, 0, piece).divergence(), std::numeric_limits<double>::infinity());
  }
}

TEST(TokenLosses, WhatIsNoDistributionIsLeftOutAndCounted) {
  const std::vector<float> good = {1.0F, 2.0F};
  for (const std::vector<float>& bad :
       {std::vector<float>{1.0F, kNot}, {kInf, 0.0F}, {-kInf, -kInf}, {kNot, kNot}}) {
    for (const std::size_t piece : {1U, 2U}) {
      EXPECT_FALSE(pair_of(good, bad, 0, piece).is_distribution());
      EXPECT_FALSE(pair_of(bad, good, 0, piece).is_distribution());
    }
    ComparisonTally tally;
    tally.add(0, pair_of(good, bad, 0, 2));
    tally.add(0, pair_of(good, good, 0, 2));
    EXPECT_EQ(tally.left_out(), 1);
    EXPECT_EQ(tally.tokens(), 1);
    EXPECT_EQ(tally.comparison().divergence.mean, 0.0);
  }
  LossTally none;
  none.add(0, LogitSums(0));
  EXPECT_EQ(none.left_out(), 1);
  EXPECT_TRUE(std::isnan(none.summary().loss.mean));
  EXPECT_TRUE(std::isnan(none.summary().perplexity));
}

TEST(TokenLosses, AModelBesideItselfCostsNothing) {
  ComparisonTally tally;
  for (std::uint64_t token = 0; token < 40; ++token) {
    const std::vector<float> logits = drawn_logits(300, 9.0, 4.0, token);
    tally.add(static_cast<std::int64_t>(token / 8), pair_of(logits, logits, 7, 64));
  }
  const LossComparison same = tally.comparison();
  EXPECT_LE(same.divergence_max, 1e-14);
  EXPECT_EQ(same.agreement.mean, 1.0);
  EXPECT_EQ(same.agreement.error, 0.0);
  EXPECT_EQ(same.difference.mean, 0.0);
  EXPECT_EQ(same.difference.error, 0.0);
  EXPECT_EQ(same.probability_change_rms, 0.0);
  EXPECT_EQ(same.a.loss.mean, same.b.loss.mean);
}

TEST(PromptMean, OfPromptsOfOneLengthIsTheErrorOfTheirMeans) {
  // Means 1, 2, 6 of three prompts of two tokens: mean 3, deviation sqrt(7), error sqrt(7/3).
  PromptMean mean;
  for (const auto& [prompt, value] : std::vector<std::pair<int, double>>{
           {0, 0.0}, {0, 2.0}, {4, 1.0}, {4, 3.0}, {9, 6.0}, {9, 6.0}}) {
    mean.add(prompt, value);
  }
  EXPECT_DOUBLE_EQ(mean.mean().mean, 3.0);
  EXPECT_DOUBLE_EQ(mean.mean().error, std::sqrt(7.0 / 3.0));
  EXPECT_EQ(mean.tokens(), 6);
  EXPECT_EQ(mean.prompts(), 3);
}

TEST(PromptMean, OfOnePromptHasNoError) {
  PromptMean mean;
  EXPECT_TRUE(std::isnan(mean.mean().mean));
  mean.add(0, 1.0);
  mean.add(0, 2.0);
  EXPECT_EQ(mean.mean().mean, 1.5);
  EXPECT_TRUE(std::isnan(mean.mean().error));
  mean.add(1, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isinf(mean.mean().mean));
  EXPECT_TRUE(std::isnan(mean.mean().error));
}

TEST(PromptMean, ErrorsAreThoseOfRepeatedDraws) {
  // Prompts of 5 to 24 tokens whose level differs: errors by token would be several times too
  // small.
  constexpr int kDraws = 400;
  std::uint64_t state = 7;
  double sum = 0.0;
  double squares = 0.0;
  double variances = 0.0;
  for (int draw = 0; draw < kDraws; ++draw) {
    PromptMean mean;
    for (std::int64_t prompt = 0; prompt < 30; ++prompt) {
      const double level = uniform(state) + uniform(state);
      const auto tokens = static_cast<int>(5.0 + 20.0 * uniform(state));
      for (int i = 0; i < tokens; ++i) {
        mean.add(prompt, level + 0.2 * uniform(state));
      }
    }
    sum += mean.mean().mean;
    squares += mean.mean().mean * mean.mean().mean;
    variances += mean.mean().error * mean.mean().error;
  }
  const double variance = squares / kDraws - sum / kDraws * (sum / kDraws);
  EXPECT_NEAR(variances / kDraws / variance, 1.0, 0.2);
}

TEST(TokenLosses, ADifferenceIsKnownBetterThanEitherLoss) {
  // B is A with one entry raised by a little: texts differ much, the cost does not.
  ComparisonTally tally;
  LossTally alone;
  for (std::int64_t token = 0; token < 200; ++token) {
    const std::vector<float> a = drawn_logits(50, 2.0 + static_cast<double>(token / 20), 0.0,
                                              static_cast<std::uint64_t>(token));
    std::vector<float> b = a;
    b[5] += 0.5F;
    tally.add(token / 20, pair_of(a, b, 3, 50));
    LogitSums sums(3);
    sums.add(a, 0);
    alone.add(token / 20, sums);
  }
  const LossComparison both = tally.comparison();
  EXPECT_NEAR(both.difference.mean, both.b.loss.mean - both.a.loss.mean, 1e-12);
  EXPECT_LT(both.difference.error, 0.2 * both.a.loss.error);
  EXPECT_LE(both.divergence_median, both.divergence_q90);
  EXPECT_LE(both.divergence_q90, both.divergence_q99);
  EXPECT_LE(both.divergence_q99, both.divergence_max);
  EXPECT_GT(both.divergence.mean, 0.0);
  EXPECT_EQ(both.a.loss.mean, alone.summary().loss.mean);
  EXPECT_DOUBLE_EQ(both.a.perplexity, std::exp(both.a.loss.mean));
  // Student's t of nine degrees of freedom.
  EXPECT_NEAR(std::log(both.a.perplexity_high) - both.a.loss.mean, 2.262157 * both.a.loss.error,
              1e-3 * both.a.loss.error);
  EXPECT_NEAR(both.a.loss.mean - std::log(both.a.perplexity_low), 2.262157 * both.a.loss.error,
              1e-3 * both.a.loss.error);
}

}  // namespace
}  // namespace vindex::statistics::token_losses_test
