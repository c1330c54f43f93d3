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

/// The Haar transform of n values, without padding: n numbers of the same energy. A scale pairs the
/// means of the one below; one that is left over at the end stands for fewer values and moves up as
/// it is. Means of a and b values, sqrt(a) and sqrt(b) times as large, become
///   sum    (sqrt(a) A + sqrt(b) B) / sqrt(a + b)
///   detail (sqrt(b) A - sqrt(a) B) / sqrt(a + b)
/// which for a = b is the usual pair (unbalanced Haar: Girardi and Sweldens, J. Fourier Anal. Appl.
/// 3, 1997). So details of a constant are zero, and those of white noise are as strong as it is, at
/// every length.
class HaarBands {
 public:
  /// At most `levels` scales: as many as the length has.
  HaarBands(std::span<const float> values, std::int32_t levels);
  std::int32_t levels() const { return levels_; }
  /// Details of scale 2^(level+1) values in order: floor(m / 2) of m sums below. Detail i has the
  /// parent i / 2 of the next scale; only the last one may have none.
  std::span<double> detail(std::int32_t level);
  std::span<const double> detail(std::int32_t level) const;
  /// The values again; the bands are used up.
  void invert(std::span<float> out);

 private:
  std::size_t sums_above(std::int32_t level) const;

  std::vector<double> bands_;  // sums of the coarsest scale, then details, coarsest first
  std::size_t count_ = 0;
  std::int32_t levels_ = 0;
};

}  // namespace vindex::purify
