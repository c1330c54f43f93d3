// Owns what next-token logits cost, as numbers: the loss of each token that was predicted, how far
// two models are apart (Kullback-Leibler divergence, the same first choice), and means over tokens
// with errors by prompt. Logits come in pieces of the vocabulary, so that no row of them is ever
// whole in memory. Float64; no bit depends on who calls, but on the pieces: sums run over them.
//
// Loss of a token: -ln p of the token that came, p = softmax of the logits before it, in nats.
// Divergence: KL(A || B) = sum_v p_A(v) ln(p_A(v) / p_B(v)); A is the reference, as in llama.cpp's
// --kl-divergence (tools/perplexity).
//
// Errors: tokens of one prompt are not independent, prompts are. A mean over tokens is a ratio
// mean = sum_g S_g / sum_g n_g over G prompts of n_g tokens, and by linearisation (Cochran 1977,
// Sampling Techniques, 6.4 and 9A.1)
//   error^2 = G / (G - 1) sum_g (S_g - mean n_g)^2 / (sum_g n_g)^2.
// Of differences of two models on the same tokens S_g is the sum of differences: what both have in
// common, the difficulty of the text, falls out. Intervals are of Student's t with G - 1 degrees of
// freedom.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::statistics {

/// softmax of the logits of one position, taken in pieces of the vocabulary.
class LogitSums {
 public:
  /// `target`: the entry that came; -1 where none did.
  explicit LogitSums(std::int64_t target = -1) : target_(target) {}
  /// Logits of entries first, first + 1, ...; in ascending order, each once.
  void add(std::span<const float> logits, std::int64_t first);

  /// No logit was NaN or +infinity and one at least was above -infinity; else all below is
  /// meaningless. -infinity alone is an entry that is masked out.
  bool is_distribution() const { return !broken_ && total_ > 0.0; }
  double log_total() const;  ///< ln sum exp(logit)
  double entropy() const;    ///< nats
  /// -ln p(target); +infinity where it is masked out or no entry.
  double loss() const;
  std::int64_t first_choice() const { return choice_; }  ///< the first of the largest; -1: none

 private:
  friend class LogitPair;
  friend class LikeliestEntries;
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::int64_t target_, choice_ = -1;
  double target_logit_ = kNone;
  double largest_ = kNone;
  double total_ = 0.0;     ///< sum exp(logit - largest)
  double weighted_ = 0.0;  ///< sum exp(logit - largest) (logit - largest)
  bool broken_ = false;
};

/// The likeliest entries of one position, in pieces of the vocabulary too.
class LikeliestEntries {
 public:
  static constexpr std::size_t kCount = 8;
  LikeliestEntries() { largest_.fill(-std::numeric_limits<float>::infinity()); }
  /// Of numbers; others make what LogitSums calls no distribution.
  void add(std::span<const float> logits);
  /// Their probability together; `sums`, a distribution, of the same logits.
  double mass(const LogitSums& sums) const;

 private:
  std::array<float, kCount> largest_;  ///< descending
};

/// The same of two models at one position.
class LogitPair {
 public:
  explicit LogitPair(std::int64_t target = -1) : a_(target), b_(target) {}
  /// Both of the same entries. Errors: internal where the lengths differ.
  void add(std::span<const float> a, std::span<const float> b, std::int64_t first);

  const LogitSums& a() const { return a_; }
  const LogitSums& b() const { return b_; }
  bool is_distribution() const { return a_.is_distribution() && b_.is_distribution(); }
  /// KL(A || B), nats, 0 or more; +infinity where B masks out what A does not.
  double divergence() const;

 private:
  LogitSums a_, b_;
  double apart_ = 0.0;  ///< sum exp(a - largest of a) (a - b)
};

/// A mean over tokens and its standard error by prompt; the error is NaN below two prompts and of
/// an infinite mean.
struct MeanByPrompt {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();
};

/// Sums of one quantity, prompt by prompt.
class PromptMean {
 public:
  /// Of a token of `prompt`, any number; tokens of a prompt come one after the other.
  void add(std::int64_t prompt, double value);
  MeanByPrompt mean() const;
  std::int64_t tokens() const;
  std::int64_t prompts() const { return static_cast<std::int64_t>(prompts_.size()); }

 private:
  struct Sum {
    std::int64_t prompt = 0, tokens = 0;
    double total = 0.0;
  };
  std::vector<Sum> prompts_;
};

struct LossSummary {
  MeanByPrompt loss;                                                 ///< nats a token
  double perplexity = std::numeric_limits<double>::quiet_NaN();      ///< exp(mean)
  double perplexity_low = std::numeric_limits<double>::quiet_NaN();  ///< its 95 % interval
  double perplexity_high = std::numeric_limits<double>::quiet_NaN();
  MeanByPrompt entropy;  ///< of the predictions: what the model itself expects to lose
};

/// Of one model. A token counts where the logits before it are a distribution.
class LossTally {
 public:
  void add(std::int64_t prompt, const LogitSums& sums);
  LossSummary summary() const;
  std::int64_t tokens() const { return loss_.tokens(); }
  std::int64_t prompts() const { return loss_.prompts(); }
  std::int64_t left_out() const { return left_out_; }

 private:
  PromptMean loss_, entropy_;
  std::int64_t left_out_ = 0;
};

struct LossComparison {
  LossSummary a, b;         ///< both over the tokens that count for both
  MeanByPrompt difference;  ///< loss of B less that of A
  MeanByPrompt divergence;  ///< KL(A || B)
  double divergence_median = std::numeric_limits<double>::quiet_NaN();
  double divergence_q90 = std::numeric_limits<double>::quiet_NaN();
  double divergence_q99 = std::numeric_limits<double>::quiet_NaN();
  double divergence_max = std::numeric_limits<double>::quiet_NaN();
  MeanByPrompt agreement;  ///< share of tokens where both have the same first choice
  /// Of the token that came: p_B - p_A, and the root of its mean square.
  MeanByPrompt probability_change;
  double probability_change_rms = std::numeric_limits<double>::quiet_NaN();
};

/// Of two models on the same tokens.
class ComparisonTally {
 public:
  void add(std::int64_t prompt, const LogitPair& pair);
  LossComparison comparison() const;
  std::int64_t tokens() const { return difference_.tokens(); }
  std::int64_t prompts() const { return difference_.prompts(); }
  std::int64_t left_out() const { return left_out_; }

 private:
  LossTally a_, b_;
  PromptMean difference_, agreement_, probability_;
  PromptMean divergence_;
  std::vector<double> divergences_;
  double probability_squares_ = 0.0;
  std::int64_t left_out_ = 0;
};

}  // namespace vindex::statistics
