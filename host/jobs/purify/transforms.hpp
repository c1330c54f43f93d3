// Owns the orthonormal transforms of real numbers, in float64: the discrete Fourier transform, of
// any length, and the Haar transform of a line of numbers, whose details of `levels` scales and
// what is left above them are bands.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::purify {

/// Bins 0 .. floor(N/2) of the orthonormal transform: X_k = sum_t x_t exp(-2 pi i k t / N) /
/// sqrt(N). Parseval: sum x^2 = sum of bin_weight |X|^2.
std::vector<std::complex<double>> real_transform(std::span<const float> values);

/// How often bin k of N values stands for itself: 1 for the first and for N/2, else 2.
double bin_weight(std::size_t bin, std::size_t count);

/// The inverse. `bins` has floor(out.size()/2) + 1 entries and is used up.
void inverse_real_transform(std::span<std::complex<double>> bins, std::span<float> out);

/// Upper bound of the bytes that one of the two takes, its result included.
std::uint64_t real_transform_bytes(std::uint64_t count);

/// The transform of some values, padded with zeros to a power of two.
class HaarBands {
 public:
  /// At most `levels` scales: as many as the padded length has.
  HaarBands(std::span<const float> values, std::int32_t levels);
  std::int32_t levels() const { return levels_; }
  /// Details of scale 2^(level+1) values, (padded length) / 2^(level+1) of them, in order.
  std::span<double> detail(std::int32_t level);
  std::span<const double> detail(std::int32_t level) const;
  /// The values again (the first ones of the padded length); the bands are used up.
  void invert(std::span<float> out);

 private:
  std::vector<double> bands_;  // sums of the coarsest scale, then details, coarsest first
  std::int32_t levels_ = 0;
};

}  // namespace vindex::purify
