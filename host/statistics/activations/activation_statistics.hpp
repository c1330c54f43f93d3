// Owns what dumped activations are like, as numbers: how many are near zero, how heavy their tails
// are, how neurons vary; and what next-token logits say. Definitions: docs/commands/activations.md.
// Tokens come in pieces and twice, since thresholds and means must be known before values are
// counted. Float64 on the host; sums run over tokens in their order, so that no bit depends on the
// pieces.
#pragma once

#include "activation_nulls.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::statistics {

/// First reading: sums per neuron and per token.
class ActivationTotals {
 public:
  explicit ActivationTotals(std::int64_t neurons);
  /// Rows are tokens, row-major, neurons() values each.
  void add(std::span<const float> rows);

  std::int64_t neurons() const { return static_cast<std::int64_t>(sums_.size()); }
  std::int64_t tokens() const { return tokens_; }
  bool is_finite() const;
  double mean() const;
  double mean_square() const;
  std::vector<double> neuron_means() const;
  /// Hoyer's sparseness (sqrt n - |a|_1/|a|_2)/(sqrt n - 1) of all values; NaN for zeros alone and
  /// for one value.
  double hoyer() const;
  /// Mean of it over tokens that are not zero.
  double hoyer_token() const;
  /// Whether some neuron differs between tokens.
  bool varies() const { return varies_; }
  /// Neurons whose every value is at most kNearZero[0] root mean squares in size.
  std::int64_t dead_neurons() const;
  /// What it and ActivationSpread hold.
  static std::uint64_t memory_bytes(std::int64_t neurons);

 private:
  std::int64_t tokens_ = 0;
  std::vector<double> sums_;
  std::vector<float> largest_;
  std::vector<float> first_token_;
  bool varies_ = false;
  double absolute_ = 0.0, squares_ = 0.0;
  double hoyers_ = 0.0;
  std::int64_t hoyer_tokens_ = 0;
};

/// Second reading: counts and central moments.
class ActivationSpread {
 public:
  explicit ActivationSpread(const ActivationTotals& totals);
  void add(std::span<const float> rows);

  /// Shares of values of at most kNearZero root mean squares.
  std::array<double, kNearZero.size()> sparsity() const;
  /// Mean over neurons of the (population) variance over tokens.
  double neuron_variance() const;
  /// m4 / m2^2 of all values about their mean: 3 for a Gaussian. NaN where all are equal.
  double kurtosis() const;

 private:
  std::vector<double> means_, squares_;  ///< per neuron
  double mean_;
  std::array<float, kNearZero.size()> thresholds_;  ///< largest values that count
  std::array<std::int64_t, kNearZero.size()> near_zero_ = {};
  double second_ = 0.0, fourth_ = 0.0;
  std::int64_t values_ = 0;
};

/// exp(entropy) of non-negative eigenvalues as shares, from 1 to their number; rounding below zero
/// counts as zero. NaN where all are zero.
double effective_rank_of(std::span<const double> eigenvalues);

/// What next-token logits say, token by token.
class LogitStatistics {
 public:
  /// False, and nothing counted, where a logit is NaN or +infinity or all are -infinity.
  bool add(std::span<const float> logits);
  std::int64_t tokens() const { return tokens_; }
  double top8_mass() const;       ///< mean probability of the eight likeliest entries together
  double output_entropy() const;  ///< mean entropy, nats

 private:
  std::int64_t tokens_ = 0;
  double mass_ = 0.0, entropy_ = 0.0;
};

}  // namespace vindex::statistics
