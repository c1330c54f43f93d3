// Owns the discrete Fourier transform of real numbers, of any length, in float64.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::organ {

/// Bins 0 .. floor(N/2) of the orthonormal transform: X_k = sum_t x_t exp(-2 pi i k t / N) /
/// sqrt(N). Parseval: sum x^2 = sum of bin_weight |X|^2.
std::vector<std::complex<double>> real_transform(std::span<const float> values);

/// How often bin k of N values stands for itself: 1 for the first and for N/2, else 2.
double bin_weight(std::size_t bin, std::size_t count);

/// The inverse. `bins` has floor(out.size()/2) + 1 entries and is used up.
void inverse_real_transform(std::span<std::complex<double>> bins, std::span<float> out);

/// Upper bound of the bytes that one of the two takes, its result included.
std::uint64_t real_transform_bytes(std::uint64_t count);

}  // namespace vindex::organ
