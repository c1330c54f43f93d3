// Owns draws of centred Gram matrices given the norms.
#include "expert_nulls.hpp"

#include "statistics/samples/random_draws.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>

namespace vindex::statistics {

namespace {

constexpr std::uint64_t kExpertsKey = 0x65787065727473;  // of these draws alone
constexpr std::int64_t kDrawsTimesPairs = std::int64_t{1} << 20;
constexpr std::int64_t kFewestDraws = 32;
constexpr std::int64_t kMostDraws = 2048;

/// Means and deviations of statistics that come one draw at a time.
struct StatisticDraws {
  double first = kNaN, sum = 0.0, squares = 0.0, count = 0.0;
  void add(double value) {
    first = count == 0.0 ? value : first;  // what all draws share takes no digits
    sum += value - first;
    squares += (value - first) * (value - first);
    count += 1.0;
  }
  DrawnStatistic statistic() const {
    const double mean = sum / count;
    const double left = std::max(0.0, squares - sum * mean);
    return {first + mean, std::sqrt(left / (count - 1.0))};
  }
};

/// The Gram matrix of independent vectors of `norms`, their mean removed, into `gram`; `rows` is
/// room for their coordinates.
void draw_centred_gram(std::span<const double> norms, std::int64_t length, DrawStream stream,
                       std::vector<double>& rows, std::vector<double>& gram) {
  const std::size_t n = norms.size();
  const std::size_t width = std::min(n, static_cast<std::size_t>(length));
  rows.assign(n * width, 0.0);
  std::vector<double> mean(width, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    double* row = rows.data() + i * width;
    const std::size_t drawn = std::min(i, width);
    double square = 0.0;
    for (std::size_t k = 0; k < drawn; ++k) {
      row[k] = stream.normal();
      square += row[k] * row[k];
    }
    if (i < width) {  // all that lies outside the vectors before it
      const double rest = draw_chi_squared(length - static_cast<std::int64_t>(i), stream);
      row[i] = std::sqrt(rest);
      square += rest;
    }
    const double scale = norms[i] / std::sqrt(square);
    for (std::size_t k = 0; k < std::min(i + 1, width); ++k) {
      row[k] *= scale;
      mean[k] += row[k] / static_cast<double>(n);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < width; ++k) {
      rows[i * width + k] -= mean[k];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      gram[i * n + j] = gram[j * n + i] =
          std::inner_product(rows.begin() + static_cast<std::ptrdiff_t>(i * width),
                             rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                             rows.begin() + static_cast<std::ptrdiff_t>(j * width), 0.0);
    }
  }
}

}  // namespace

ExpertNulls draw_expert_nulls(std::span<const double> norms, std::int64_t length,
                              SymmetricEigenvalues eigenvalues, const std::stop_token& stop) {
  expects(length >= 1, "draw_expert_nulls: vectors of some length");
  ExpertNulls out;
  const std::size_t n = norms.size();
  const auto experts = static_cast<std::int64_t>(n);
  const double most = n > 0 ? *std::max_element(norms.begin(), norms.end()) : 0.0;
  if (n < 2 || !(most > 0.0)) {
    return out;
  }
  std::vector<double> shares_of_most;  // no square overflows or is lost
  for (const double norm : norms) {
    shares_of_most.push_back(norm / most);
  }
  out.draws = std::clamp(kDrawsTimesPairs / (experts * experts), kFewestDraws, kMostDraws);
  out.shares.assign(n, 0.0);
  StatisticDraws rank_90, effective_rank, cosine_mean, cosine_max;
  std::vector<double> rows;
  std::vector<double> gram(n * n);
  const std::uint64_t key = kExpertsKey ^ (static_cast<std::uint64_t>(length) << 20U) ^ n;
  for (std::int64_t draw = 0; draw < out.draws; ++draw) {
    draw_centred_gram(shares_of_most, length, DrawStream(key, static_cast<std::uint64_t>(draw)),
                      rows, gram);
    double sum = 0.0;
    double largest = -1.0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double norm = std::sqrt(gram[i * n + i]) * std::sqrt(gram[j * n + j]);
        const double cosine = std::clamp(gram[i * n + j] / norm, -1.0, 1.0);
        sum += cosine;
        largest = std::max(largest, cosine);
      }
    }
    cosine_mean.add(sum / (0.5 * static_cast<double>(n * (n - 1))));
    cosine_max.add(largest);
    const ExpertSpectrum spectrum =
        expert_spectrum(eigenvalues(gram, experts, stop), experts, length, {});
    rank_90.add(spectrum.rank_90);
    effective_rank.add(spectrum.effective_rank);
    const double trace = std::accumulate(spectrum.values.begin(), spectrum.values.end(), 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      out.shares[i] += spectrum.values[i] / trace / static_cast<double>(out.draws);
    }
  }
  out.rank_90 = rank_90.statistic();
  out.effective_rank = effective_rank.statistic();
  out.cosine_mean = cosine_mean.statistic();
  out.cosine_max = cosine_max.statistic();
  return out;
}

}  // namespace vindex::statistics
