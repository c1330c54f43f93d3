// Owns what follows from the E x E Gram matrix G of experts' flattened weights, so that no pair of
// experts is read again:
//
//   cosine_ij          G_ij / sqrt(G_ii G_jj)
//   centred Gram       G_ij - m_i - m_j + m,  m_i the mean of row i, m of all: of w_i - mean w
//   mean_share         |mean w|^2 / mean |w|^2 = (sum of all G_ij / E) / tr G
//   spectrum           eigenvalues of the centred Gram; rank_90 and exp(entropy) of their shares
//
// Why centre: a mean expert that all share makes every cosine large and says nothing of the
// experts.
#include "expert_axis.hpp"

#include "centred_cosines.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::statistics {

namespace {

/// Least centred norm over the root mean square of the norms.
constexpr double kMinCentred = 1e-3;

void append_reason(std::string& reason, const std::string& text) {
  reason += (reason.empty() ? "" : "; ") + text;
}

/// Cosines of the members of an n x n Gram, as E x E.
struct Cosines {
  std::vector<float> values;
  CosineSummary summary;
  std::int64_t members = 0;  ///< that have cosines
};

Cosines cosines_of(std::span<const double> gram, const std::vector<std::size_t>& members,
                   std::size_t experts, double min_square) {
  const std::size_t n = members.size();
  Cosines out;
  out.values.assign(experts * experts, std::numeric_limits<float>::quiet_NaN());
  const auto norm_of = [&](std::size_t i) {
    const double square = gram[i * n + i];
    return square > min_square ? std::sqrt(square) : kNaN;
  };
  double sum = 0.0;
  double pairs = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const double norm = norm_of(i);
    if (std::isnan(norm)) {
      continue;
    }
    ++out.members;
    out.values[members[i] * experts + members[i]] = 1.0F;
    for (std::size_t j = i + 1; j < n; ++j) {
      const double other = norm_of(j);
      if (std::isnan(other)) {
        continue;
      }
      const double cosine = std::clamp(gram[i * n + j] / norm / other, -1.0, 1.0);
      out.values[members[i] * experts + members[j]] = static_cast<float>(cosine);
      out.values[members[j] * experts + members[i]] = static_cast<float>(cosine);
      sum += cosine;
      pairs += 1.0;
      if (!(out.summary.max >= cosine)) {
        out.summary.max = cosine;
        out.summary.expert = static_cast<std::int64_t>(members[i]);
        out.summary.other = static_cast<std::int64_t>(members[j]);
      }
    }
  }
  out.summary.mean = pairs > 0.0 ? sum / pairs : kNaN;
  return out;
}

std::vector<double> centred(std::span<const double> gram, std::size_t n) {
  const auto count = static_cast<double>(n);
  std::vector<double> means(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      means[i] += gram[i * n + j] / count;
    }
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / count;
  std::vector<double> out(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      out[i * n + j] = gram[i * n + j] - means[i] - means[j] + mean;
    }
  }
  return out;
}

}  // namespace

ExpertCosines expert_cosines(std::span<const double> gram, const std::vector<bool>& counts,
                             double length) {
  const std::size_t experts = counts.size();
  expects(gram.size() == experts * experts, "expert_cosines: a sum for every pair");
  ExpertCosines out;
  out.norm.assign(experts, kNaN);
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < experts; ++i) {
    if (!counts[i]) {
      continue;
    }
    const double square = gram[i * experts + i];
    if (!std::isfinite(square)) {
      append_reason(out.reason, fmt::format("expert {}: weights that are not finite", i));
      continue;
    }
    out.norm[i] = std::sqrt(square);
    if (square == 0.0) {
      append_reason(out.reason, fmt::format("expert {}: all zeros", i));
    }
    members.push_back(i);
    out.counted_norms.push_back(out.norm[i]);
  }
  const std::size_t n = members.size();
  std::vector<double> own(n * n);
  double squares = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      own[i * n + j] = gram[members[i] * experts + members[j]];
      sum += own[i * n + j];
    }
    squares += own[i * n + i];
  }
  const auto count = static_cast<double>(n);
  out.counted = static_cast<std::int64_t>(n);
  Cosines plain = cosines_of(own, members, experts, 0.0);
  out.cosine = std::move(plain.values);
  out.plain = plain.summary;
  fill_plain_nulls(plain.members, length, out.plain);
  if (n < 2) {
    out.cosine_centred.assign(experts * experts, std::numeric_limits<float>::quiet_NaN());
    append_reason(out.reason, "fewer than two experts");
    return out;
  }
  out.mean_share = squares > 0.0 ? std::clamp(sum / count / squares, 0.0, 1.0) : kNaN;
  out.mean_share_null = 1.0 / count;
  out.centred_gram = centred(own, n);
  const double least = kMinCentred * kMinCentred * squares / count;
  Cosines without_mean = cosines_of(out.centred_gram, members, experts, least);
  out.cosine_centred = std::move(without_mean.values);
  out.centred = without_mean.summary;
  fill_centred_nulls(out.counted_norms, length, out.centred);
  for (std::size_t i = 0; i < n; ++i) {
    if (squares > 0.0 && !(out.centred_gram[i * n + i] > least)) {
      append_reason(out.reason, fmt::format("expert {}: equals the mean expert", members[i]));
    }
  }
  return out;
}

ExpertSpectrum expert_spectrum(std::span<const double> ascending, std::int64_t experts,
                               std::int64_t length, const ExpertNulls& nulls) {
  const auto n = static_cast<std::int64_t>(ascending.size());
  expects(n <= experts, "expert_spectrum: at most an eigenvalue each");
  ExpertSpectrum out;
  out.values.assign(static_cast<std::size_t>(experts), kNaN);
  out.null_values = out.values;
  if (n < 2) {
    return out;
  }
  double trace = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = std::max(0.0, ascending[static_cast<std::size_t>(n - 1 - i)]);
    out.values[static_cast<std::size_t>(i)] = value;
    trace += value;
  }
  const std::int64_t p = std::min(n - 1, length);
  if (nulls.draws > 0) {
    expects(static_cast<std::int64_t>(nulls.shares.size()) == n, "expert_spectrum: nulls of these");
    std::transform(nulls.shares.begin(), nulls.shares.end(), out.null_values.begin(),
                   [&](double share) { return share * trace; });
    out.rank_90_null = nulls.rank_90.mean;
    out.rank_90_null_sd = nulls.rank_90.deviation;
    out.effective_rank_null = nulls.effective_rank.mean;
    out.effective_rank_null_sd = nulls.effective_rank.deviation;
  }
  if (trace == 0.0) {
    out.reason = "equal experts: no spectrum beside their mean";
    return out;
  }
  double held = 0.0;
  double entropy = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double share = out.values[static_cast<std::size_t>(i)] / trace;
    held += share;
    entropy -= share > 0.0 ? share * std::log(share) : 0.0;
    if (std::isnan(out.rank_90) && held >= 0.9) {
      out.rank_90 = static_cast<double>(i + 1);
    }
  }
  // Of centred experts p values at most are not rounding error.
  out.effective_rank = std::clamp(std::exp(entropy), 1.0, static_cast<double>(p));
  return out;
}

}  // namespace vindex::statistics
