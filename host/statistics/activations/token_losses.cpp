// Owns the sums over the vocabulary, which keep the largest logit so far as their unit, and the
// means over tokens.
#include "token_losses.hpp"

#include "core/constants.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/student.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::statistics {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

void LogitSums::add(std::span<const float> logits, std::int64_t first) {
  float largest = -kInfinity;
  std::size_t place = 0;
  bool is_number = true;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    is_number &= !std::isnan(logits[i]);
    if (logits[i] > largest) {
      largest = logits[i];
      place = i;
    }
  }
  if (!is_number || largest == kInfinity) {
    broken_ = true;
  }
  if (broken_) {
    return;
  }
  if (const std::int64_t at = target_ - first;
      target_ >= first && at < static_cast<std::int64_t>(logits.size())) {
    target_logit_ = logits[static_cast<std::size_t>(at)];
  }
  if (largest == -kInfinity) {
    return;
  }
  if (largest > largest_) {
    if (total_ > 0.0) {
      const double step = largest_ - largest;
      const double factor = std::exp(step);
      weighted_ = factor * (weighted_ + step * total_);
      total_ *= factor;
    }
    largest_ = largest;
    choice_ = first + static_cast<std::int64_t>(place);
  }
  double total = 0.0;
  double weighted = 0.0;
  for (const float logit : logits) {
    if (logit != -kInfinity) {
      const double below = logit - largest_;
      const double value = std::exp(below);
      total += value;
      weighted += value * below;
    }
  }
  total_ += total;
  weighted_ += weighted;
}

double LogitSums::log_total() const { return largest_ + std::log(total_); }

double LogitSums::entropy() const { return std::max(0.0, std::log(total_) - weighted_ / total_); }

double LogitSums::loss() const {
  // The difference of two logits first: their common size costs no digits.
  return std::log(total_) - (target_logit_ - largest_);
}

void LikeliestEntries::add(std::span<const float> logits) {
  for (const float logit : logits) {
    if (logit > largest_.back()) {
      std::size_t place = kCount - 1;
      for (; place > 0 && largest_[place - 1] < logit; --place) {
        largest_[place] = largest_[place - 1];
      }
      largest_[place] = logit;
    }
  }
}

double LikeliestEntries::mass(const LogitSums& sums) const {
  double mass = 0.0;
  for (const float logit : largest_) {
    mass += std::exp(logit - sums.largest_);
  }
  return std::min(1.0, mass / sums.total_);
}

void LogitPair::add(std::span<const float> a, std::span<const float> b, std::int64_t first) {
  expects(a.size() == b.size(), "LogitPair::add: logits of the same entries");
  const double before = a_.largest_;
  a_.add(a, first);
  b_.add(b, first);
  if (a_.broken_ || b_.broken_ || a_.largest_ == LogitSums::kNone) {
    return;
  }
  apart_ *= std::exp(before - a_.largest_);
  double apart = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == -kInfinity) {
      continue;
    }
    const double share = std::exp(a[i] - a_.largest_);
    if (share > 0.0) {  // 0 times the infinity of a masked entry is no number
      apart += share * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
    }
  }
  apart_ += apart;
}

double LogitPair::divergence() const {
  // sum p (a - b) - (ln sum exp a - ln sum exp b), the units (largest) of both apart.
  const double logs = std::log(a_.total_) - std::log(b_.total_);
  return std::max(0.0, apart_ / a_.total_ - (a_.largest_ - b_.largest_) - logs);
}

void PromptMean::add(std::int64_t prompt, double value) {
  if (prompts_.empty() || prompts_.back().prompt != prompt) {
    prompts_.push_back({.prompt = prompt});
  }
  ++prompts_.back().tokens;
  prompts_.back().total += value;
}

std::int64_t PromptMean::tokens() const {
  std::int64_t tokens = 0;
  for (const Sum& sum : prompts_) {
    tokens += sum.tokens;
  }
  return tokens;
}

MeanByPrompt PromptMean::mean() const {
  double total = 0.0;
  for (const Sum& sum : prompts_) {
    total += sum.total;
  }
  const auto count = static_cast<double>(tokens());
  MeanByPrompt out;
  out.mean = count > 0.0 ? total / count : kNaN;
  if (prompts_.size() < 2 || !std::isfinite(out.mean)) {
    return out;
  }
  double squares = 0.0;
  for (const Sum& sum : prompts_) {
    const double off = sum.total - out.mean * static_cast<double>(sum.tokens);
    squares += off * off;
  }
  const auto groups = static_cast<double>(prompts_.size());
  out.error = std::sqrt(groups / (groups - 1.0) * squares) / count;
  return out;
}

void LossTally::add(std::int64_t prompt, const LogitSums& sums) {
  if (!sums.is_distribution()) {
    ++left_out_;
    return;
  }
  loss_.add(prompt, sums.loss());
  entropy_.add(prompt, sums.entropy());
}

LossSummary LossTally::summary() const {
  LossSummary out;
  out.loss = loss_.mean();
  out.entropy = entropy_.mean();
  out.perplexity = std::exp(out.loss.mean);
  if (!std::isnan(out.loss.error)) {
    const double reach = student_quantile(static_cast<double>(prompts() - 1)) * out.loss.error;
    out.perplexity_low = std::exp(out.loss.mean - reach);
    out.perplexity_high = std::exp(out.loss.mean + reach);
  }
  return out;
}

void ComparisonTally::add(std::int64_t prompt, const LogitPair& pair) {
  if (!pair.is_distribution()) {
    ++left_out_;
    return;
  }
  a_.add(prompt, pair.a());
  b_.add(prompt, pair.b());
  const double loss_a = pair.a().loss();
  const double loss_b = pair.b().loss();
  difference_.add(prompt, loss_a == loss_b ? 0.0 : loss_b - loss_a);
  divergence_.add(prompt, pair.divergence());
  divergences_.push_back(pair.divergence());
  agreement_.add(prompt, pair.a().first_choice() == pair.b().first_choice() ? 1.0 : 0.0);
  const double change = std::exp(-loss_b) - std::exp(-loss_a);
  probability_.add(prompt, change);
  probability_squares_ += change * change;
}

LossComparison ComparisonTally::comparison() const {
  LossComparison out;
  out.a = a_.summary();
  out.b = b_.summary();
  out.difference = difference_.mean();
  out.divergence = divergence_.mean();
  out.divergence_median = quantile(divergences_, 0.5);
  out.divergence_q90 = quantile(divergences_, 0.9);
  out.divergence_q99 = quantile(divergences_, 0.99);
  out.divergence_max = quantile(divergences_, 1.0);
  out.agreement = agreement_.mean();
  out.probability_change = probability_.mean();
  out.probability_change_rms =
      tokens() > 0 ? std::sqrt(probability_squares_ / static_cast<double>(tokens())) : kNaN;
  return out;
}

}  // namespace vindex::statistics
