// An even length is a complex transform of half of it: x_{2j} + i x_{2j+1} = z_j, with
//   X_k = E_k + exp(-2 pi i k / N) O_k,   Z_k = E_k + i O_k,   E and O of the even and odd ones.
// kissfft takes every length, a prime factor p at a cost of p per value. Beyond kLargestRadix the
// transform is a convolution with a chirp, of a length that is a power of two (Bluestein 1970):
//   X_k = c_k sum_t (x_t c_t) conj(c_{k-t}),   c_t = exp(-pi i t^2 / N).
#include "transforms.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <kissfft/kissfft.hh>
#include <numbers>

namespace vindex::purify {

namespace {

using Complex = std::complex<double>;
constexpr std::size_t kLargestRadix = 256;

std::size_t largest_prime_factor(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) {
      largest = p;
      n /= p;
    }
  }
  return std::max(largest, n);
}

Complex turn(double part) { return std::polar(1.0, 2.0 * std::numbers::pi * part); }

void kiss_transform(std::span<const Complex> in, std::span<Complex> out, bool inverse) {
  const kissfft<double> plan(in.size(), inverse);
  plan.transform(in.data(), out.data());
}

void chirp_transform(std::span<const Complex> in, std::span<Complex> out, bool inverse) {
  const std::size_t n = in.size();
  const std::size_t length = std::bit_ceil(2 * n - 1);
  const double sign = inverse ? 1.0 : -1.0;
  std::vector<Complex> chirp(n);
  // t^2 modulo 2n, by steps: the angle is exact however large t is.
  for (std::size_t t = 0, square = 0; t < n; square = (square + 2 * t + 1) % (2 * n), ++t) {
    chirp[t] = turn(sign * static_cast<double>(square) / static_cast<double>(2 * n));
  }
  std::vector<Complex> a(length);
  std::vector<Complex> b(length);
  std::vector<Complex> spectrum(length);
  for (std::size_t t = 0; t < n; ++t) {
    a[t] = in[t] * chirp[t];
    b[t] = std::conj(chirp[t]);
    b[(length - t) % length] = b[t];
  }
  kiss_transform(a, spectrum, false);
  kiss_transform(b, a, false);
  for (std::size_t k = 0; k < length; ++k) {
    spectrum[k] *= a[k];
  }
  kiss_transform(spectrum, b, true);
  for (std::size_t k = 0; k < n; ++k) {
    out[k] = b[k] * chirp[k] / static_cast<double>(length);
  }
}

void complex_transform(std::span<const Complex> in, std::span<Complex> out, bool inverse) {
  if (largest_prime_factor(in.size()) > kLargestRadix) {
    chirp_transform(in, out, inverse);
  } else {
    kiss_transform(in, out, inverse);
  }
}

}  // namespace

double bin_weight(std::size_t bin, std::size_t count) {
  return bin == 0 || 2 * bin == count ? 1.0 : 2.0;
}

std::vector<Complex> real_transform(std::span<const float> values) {
  const std::size_t n = values.size();
  if (n == 0) {
    return {};
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(n));
  std::vector<Complex> bins;
  if (n % 2 == 1) {
    const std::vector<Complex> in(values.begin(), values.end());
    bins.resize(n);
    complex_transform(in, bins, false);
    bins.resize(n / 2 + 1);
    for (Complex& bin : bins) {
      bin *= scale;
    }
    return bins;
  }
  const std::size_t half = n / 2;
  std::vector<Complex> in(half);
  for (std::size_t j = 0; j < half; ++j) {
    in[j] = {values[2 * j], values[2 * j + 1]};
  }
  bins.resize(half + 1);
  complex_transform(in, std::span(bins).first(half), false);
  bins[half] = bins[0];
  for (std::size_t k = 0; 2 * k <= half; ++k) {
    const Complex z = bins[k];
    const Complex mirror = std::conj(bins[half - k]);
    const Complex even = 0.5 * (z + mirror);
    const Complex odd =
        Complex(0.0, -0.5) * (z - mirror) * turn(-static_cast<double>(k) / static_cast<double>(n));
    bins[k] = scale * (even + odd);
    bins[half - k] = scale * std::conj(even - odd);
  }
  return bins;
}

void inverse_real_transform(std::span<Complex> bins, std::span<float> out) {
  const std::size_t n = out.size();
  if (n == 0) {
    return;
  }
  expects(bins.size() == n / 2 + 1, "inverse_real_transform: floor(N/2) + 1 bins");
  const double scale = 1.0 / std::sqrt(static_cast<double>(n));
  if (n % 2 == 1) {
    std::vector<Complex> in(n);
    std::vector<Complex> back(n);
    for (std::size_t k = 0; k < bins.size(); ++k) {
      in[k] = bins[k];
      in[(n - k) % n] = std::conj(bins[k]);
    }
    in[0] = bins[0].real();
    complex_transform(in, back, true);
    std::transform(back.begin(), back.end(), out.begin(),
                   [scale](Complex value) { return static_cast<float>(scale * value.real()); });
    return;
  }
  const std::size_t half = n / 2;
  bins[0] = bins[0].real();
  bins[half] = bins[half].real();
  for (std::size_t k = 0; 2 * k <= half; ++k) {
    const Complex x = bins[k];
    const Complex mirror = std::conj(bins[half - k]);
    const Complex even = x + mirror;
    const Complex odd =
        Complex(0.0, 1.0) * (x - mirror) * turn(static_cast<double>(k) / static_cast<double>(n));
    bins[k] = even + odd;
    bins[half - k] = std::conj(even - odd);
  }
  std::vector<Complex> back(half);
  complex_transform(bins.first(half), back, true);
  for (std::size_t j = 0; j < half; ++j) {
    out[2 * j] = static_cast<float>(scale * back[j].real());
    out[2 * j + 1] = static_cast<float>(scale * back[j].imag());
  }
}

std::uint64_t real_transform_bytes(std::uint64_t count) {
  // Input, output and twiddles of the plan; of a chirp also a, b and the spectrum.
  const std::uint64_t length = count % 2 == 0 ? count / 2 : count;
  const bool chirp = largest_prime_factor(length) > kLargestRadix;
  const std::uint64_t inside = chirp ? 4 * std::bit_ceil(2 * length) + length : length;
  return (2 * (length + 1) + inside) * sizeof(Complex);
}

namespace {

/// The rotation of a pair: (sqrt(a), sqrt(b)) / sqrt(a + b) for means of a and b values.
struct Turn {
  double cosine = 0.5 * std::numbers::sqrt2;
  double sine = 0.5 * std::numbers::sqrt2;
};

/// That of the last pair of `sums` sums at a level, whose right one may stand for fewer values.
Turn last_turn(std::size_t count, std::size_t sums, std::int32_t level) {
  const std::size_t width = std::size_t{1} << static_cast<unsigned>(level);
  const std::size_t right = sums % 2 == 0 ? count - (sums - 1) * width : width;
  const auto a = static_cast<double>(width);
  const auto b = static_cast<double>(right);
  return right == width ? Turn{} : Turn{std::sqrt(a / (a + b)), std::sqrt(b / (a + b))};
}

}  // namespace

HaarBands::HaarBands(std::span<const float> values, std::int32_t levels)
    : bands_(values.begin(), values.end()), count_(values.size()) {
  std::vector<double> differences(count_ / 2);
  for (std::size_t sums = count_; levels_ < levels && sums > 1; sums -= sums / 2) {
    const std::size_t pairs = sums / 2;
    const Turn last = last_turn(count_, sums, levels_);
    for (std::size_t i = 0; i < pairs; ++i) {
      const Turn turn = i + 1 < pairs ? Turn{} : last;
      const double left = bands_[2 * i];
      const double right = bands_[2 * i + 1];
      bands_[i] = turn.cosine * left + turn.sine * right;
      differences[i] = turn.sine * left - turn.cosine * right;
    }
    if (sums % 2 == 1) {
      bands_[pairs] = bands_[sums - 1];
    }
    std::copy_n(differences.begin(), pairs,
                bands_.begin() + static_cast<std::ptrdiff_t>(sums - pairs));
    ++levels_;
  }
}

std::size_t HaarBands::sums_above(std::int32_t level) const {
  const std::size_t width = std::size_t{1} << static_cast<unsigned>(level + 1);
  return (count_ + width - 1) / width;
}

std::span<double> HaarBands::detail(std::int32_t level) {
  expects(level >= 0 && level < levels_, "HaarBands: a level that is there");
  return std::span(bands_).subspan(sums_above(level), sums_above(level - 1) / 2);
}

std::span<const double> HaarBands::detail(std::int32_t level) const {
  expects(level >= 0 && level < levels_, "HaarBands: a level that is there");
  return std::span(bands_).subspan(sums_above(level), sums_above(level - 1) / 2);
}

void HaarBands::invert(std::span<float> out) {
  expects(out.size() == count_, "HaarBands: as many values as there were");
  std::vector<double> sums(count_ - count_ / 2);
  for (; levels_ > 0; --levels_) {
    const std::size_t count = sums_above(levels_ - 2);
    const std::size_t pairs = count / 2;
    const Turn last = last_turn(count_, count, levels_ - 1);
    std::copy_n(bands_.begin(), count - pairs, sums.begin());
    for (std::size_t i = 0; i < pairs; ++i) {
      const Turn turn = i + 1 < pairs ? Turn{} : last;
      // The detail of pair i is read before any entry of an index so large is written.
      const double difference = bands_[count - pairs + i];
      bands_[2 * i] = turn.cosine * sums[i] + turn.sine * difference;
      bands_[2 * i + 1] = turn.sine * sums[i] - turn.cosine * difference;
    }
    if (count % 2 == 1) {
      bands_[count - 1] = sums[pairs];
    }
  }
  std::transform(bands_.begin(), bands_.end(), out.begin(),
                 [](double value) { return static_cast<float>(value); });
}

}  // namespace vindex::purify
