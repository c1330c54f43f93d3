// The methods that read a matrix as one line of numbers.
#include "purify_methods.hpp"
#include "transforms.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace vindex::purify {
namespace {

/// Middle of `values`, the mean of the two middles of an even number; reorders them.
double take_median(std::span<double> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return values.size() % 2 == 1 ? *half : 0.5 * (*half + *std::max_element(values.begin(), half));
}

/// Clears every bin of less power than `least`.
void keep_strong_bins(std::span<std::complex<double>> bins, double least) {
  for (std::complex<double>& bin : bins) {
    if (std::norm(bin) < least) {
      bin = 0.0;
    }
  }
}

/// Power of the weakest bin that is needed so that the stronger ones hold `share` of the energy.
double min_power_for_share(std::span<const std::complex<double>> bins, std::size_t count,
                           double share) {
  struct Bin {
    double power, weight;
  };
  std::vector<Bin> order;
  order.reserve(bins.size());
  double total = 0.0;
  for (std::size_t k = 0; k < bins.size(); ++k) {
    order.push_back({std::norm(bins[k]), bin_weight(k, count)});
    total += order.back().power * order.back().weight;
  }
  std::sort(order.begin(), order.end(),
            [](const Bin& a, const Bin& b) { return a.power > b.power; });
  double held = 0.0;
  for (const Bin& bin : order) {
    held += bin.power * bin.weight;
    if (held >= share * total) {
      return bin.power;
    }
  }
  return 0.0;
}

/// (sigma sqrt(ln N))^2, sigma = median|X| / sqrt(ln 2): the amplitude of complex noise has that
/// median.
double universal_power(std::span<const std::complex<double>> bins, std::size_t count) {
  std::vector<double> powers(bins.size());
  std::transform(bins.begin(), bins.end(), powers.begin(),
                 [](std::complex<double> bin) { return std::abs(bin); });
  const double median = take_median(powers);
  return median * median / std::numbers::ln2 * std::log(static_cast<double>(count));
}

/// sigma of the finest details, of which there are as many as values: nothing is padded. What is
/// white in storage order, a matrix of low rank in random directions too, is noise to it.
double finest_sigma(const HaarBands& bands) {
  const std::span<const double> finest = bands.detail(0);
  std::vector<double> magnitudes(finest.begin(), finest.end());
  for (double& value : magnitudes) {
    value = std::abs(value);
  }
  return take_median(magnitudes) / 0.6745;
}

void soft_threshold(std::span<double> details, double threshold) {
  for (double& value : details) {
    value = std::copysign(std::max(std::abs(value) - threshold, 0.0), value);
  }
}

/// BayesShrink's sigma^2 / sigma_X of one band; infinite where the band holds noise alone.
double bayes_threshold(std::span<const double> details, double sigma) {
  double sum = 0.0;
  for (const double value : details) {
    sum += value * value;
  }
  const double signal = sum / static_cast<double>(details.size()) - sigma * sigma;
  return signal > 0.0 ? sigma * sigma / std::sqrt(signal) : std::numeric_limits<double>::infinity();
}

/// Gain min(1, c / tau) of each detail, c = 2 sqrt(e f) / (e + f) of its energy e and its parent's.
void attenuate_incoherent(HaarBands& bands, double tau) {
  for (std::int32_t level = 0; level + 1 < bands.levels(); ++level) {
    const std::span<double> details = bands.detail(level);
    const std::span<const double> parents = bands.detail(level + 1);
    // The last detail of an odd number of sums has no parent, and stays as the coarsest do.
    for (std::size_t i = 0; i < details.size() && i / 2 < parents.size(); ++i) {
      const double own = std::abs(details[i]);
      const double parent = std::abs(parents[i / 2]);
      const double sum = own * own + parent * parent;
      if (sum > 0.0) {
        details[i] *= std::min(1.0, 2.0 * own * parent / sum / tau);
      }
    }
  }
}

void purify_by_fourier(const PurifyRule& rule, std::span<float> values) {
  std::vector<std::complex<double>> bins = real_transform(values);
  const double least = rule.method == PurifyMethod::kFft
                           ? min_power_for_share(bins, values.size(), rule.energy_share)
                           : universal_power(bins, values.size());
  keep_strong_bins(bins, least);
  inverse_real_transform(bins, values);
}

void purify_by_haar(const PurifyRule& rule, std::span<float> values) {
  HaarBands bands(values, rule.levels);
  if (rule.method == PurifyMethod::kHaar) {
    attenuate_incoherent(bands, rule.tau);
  } else if (bands.levels() > 0) {
    const double sigma = finest_sigma(bands);
    const double visu = sigma * std::sqrt(2.0 * std::log(static_cast<double>(values.size())));
    for (std::int32_t level = 0; level < bands.levels(); ++level) {
      const std::span<double> details = bands.detail(level);
      soft_threshold(
          details, rule.method == PurifyMethod::kHaarVisu ? visu : bayes_threshold(details, sigma));
    }
  }
  bands.invert(values);
}

}  // namespace

void purify_flat(const PurifyRule& rule, std::span<float> values) {
  expects(!is_spectral(rule.method), "purify_flat: a method of flat values");
  if (values.empty()) {
    return;
  }
  if (rule.method == PurifyMethod::kFft || rule.method == PurifyMethod::kFftUniversal) {
    purify_by_fourier(rule, values);
  } else {
    purify_by_haar(rule, values);
  }
}

std::uint64_t flat_method_bytes(PurifyMethod method, std::uint64_t count) {
  if (is_spectral(method) || count == 0) {
    return 0;
  }
  if (method == PurifyMethod::kFft || method == PurifyMethod::kFftUniversal) {
    return real_transform_bytes(count) + (count / 2 + 1) * 2 * sizeof(double);
  }
  return (count + 1) * 2 * sizeof(double);
}

}  // namespace vindex::purify
