// Owns the share of noise that a method keeps: the null of what it keeps of a matrix.
#include "purify_methods.hpp"

#include "core/integers.hpp"
#include "statistics/samples/random_draws.hpp"
#include "statistics/spectrum/noise_spectrum.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::purify {
namespace {

/// Of the mean spectrum of noise, which is what a null is everywhere else.
double spectral_share(const PurifyRule& rule, std::int64_t rows, std::int64_t cols) {
  const std::int64_t p = std::min(rows, cols);
  const std::int64_t n = std::max(rows, cols);
  const statistics::MarchenkoPastur law(static_cast<double>(p) / static_cast<double>(n));
  std::vector<double> values = statistics::mean_noise_spectrum(law, p, n);
  for (double& value : values) {
    value = std::sqrt(value);
  }
  const std::vector<double> kept = kept_values(rule, fit_noise(rows, cols, values), values);
  return kept.empty() ? 0.0 : 1.0 - change_of_values(values, kept).energy_removed;
}

double drawn_share(const PurifyRule& rule, std::int64_t count) {
  statistics::DrawStream random(1);
  std::vector<float> values(as_size(count));
  double before = 0.0;
  for (float& value : values) {
    value = static_cast<float>(random.normal());
    before += static_cast<double>(value) * static_cast<double>(value);
  }
  purify_flat(rule, values);
  double after = 0.0;
  for (const float value : values) {
    after += static_cast<double>(value) * static_cast<double>(value);
  }
  return after / before;
}

}  // namespace

double noise_kept(const PurifyRule& rule, std::int64_t rows, std::int64_t cols) {
  return is_spectral(rule.method) ? spectral_share(rule, rows, cols)
                                  : drawn_share(rule, rows * cols);
}

}  // namespace vindex::purify
