// Owns tridiagonalisation in two stages, dense to band to tridiagonal, and the scale that both
// need: A is multiplied by a power of two that brings its entries below 1, so that sums of squares
// neither overflow nor lose what matters to underflow, and the result is multiplied back. Both are
// exact. Why two stages stands in band/simd_band_reduction.cpp.
#include "simd_tridiagonal.hpp"

#include "cpu/band/simd_band_reduction.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>

namespace vindex::cpu {
namespace {

// Largest magnitude of the lower triangle; NaN where an entry is not finite.
template <typename T>
double largest_magnitude(const T* matrix, std::int64_t n, std::int64_t stride) {
  T largest = T{0};
  // 0 * x is 0 for finite x alone.
  T poison = T{0};
  for (std::int64_t i = 0; i < n; ++i) {
    const T* row = matrix + i * stride;
    constexpr std::int64_t kLanes = 16;
    T maxima[kLanes] = {};
    T poisons[kLanes] = {};
    std::int64_t j = 0;
    for (; j + kLanes <= i + 1; j += kLanes) {
      for (std::int64_t l = 0; l < kLanes; ++l) {
        const T magnitude = std::abs(row[j + l]);
        maxima[l] = magnitude > maxima[l] ? magnitude : maxima[l];
        poisons[l] += T{0} * magnitude;
      }
    }
    for (; j <= i; ++j) {
      const T magnitude = std::abs(row[j]);
      largest = magnitude > largest ? magnitude : largest;
      poison += T{0} * magnitude;
    }
    for (std::int64_t l = 0; l < kLanes; ++l) {
      largest = maxima[l] > largest ? maxima[l] : largest;
      poison += poisons[l];
    }
  }
  return poison == T{0} ? static_cast<double>(largest) : std::numeric_limits<double>::quiet_NaN();
}

template <typename T>
std::span<T> factor_in(std::int64_t n, std::span<std::byte> workspace) {
  return {reinterpret_cast<T*>(workspace.data() +
                               static_cast<std::size_t>(band_elements(n)) * sizeof(double)),
          static_cast<std::size_t>(band_workspace_elements(n))};
}

/// `reduce` makes the band of 2^-exponent A; returns its final columns.
template <typename T, typename Reduce>
std::int64_t solve(const T* matrix, std::int64_t n, std::int64_t stride, std::span<double> diagonal,
                   std::span<double> off_diagonal, std::span<std::byte> workspace, BandForm* kept,
                   SimdLevel level, const std::stop_token& stop, const Reduce& reduce) {
  expects(n >= 0 && stride >= n, "matrix stride");
  expects(static_cast<std::int64_t>(diagonal.size()) == n &&
              static_cast<std::int64_t>(off_diagonal.size()) == n,
          "length of the diagonals");
  expects(reinterpret_cast<std::uintptr_t>(workspace.data()) % 64 == 0, "workspace alignment");
  expects(workspace.size() >= tridiagonalise_workspace_bytes(n, sizeof(T)),
          "tridiagonalisation workspace too small");
  if (n == 0) {
    return n;
  }
  const double largest = largest_magnitude(matrix, n, stride);
  if (kept != nullptr) {
    expects(static_cast<std::int64_t>(kept->band.size()) >= band_elements(n), "room for the band");
    std::fill(kept->band.begin(), kept->band.end(), 0.0);
  }
  if (!(largest > 0.0)) {
    std::fill(diagonal.begin(), diagonal.end(), largest);
    std::fill(off_diagonal.begin(), off_diagonal.end(), largest);
    return n;
  }
  // Entries below 1: sums of n squares are far from overflow, and what underflows when squared is
  // below any rounding error.
  const int exponent = std::clamp(std::ilogb(largest) + 1, std::numeric_limits<T>::min_exponent,
                                  std::numeric_limits<T>::max_exponent);
  const std::span<double> band(reinterpret_cast<double*>(workspace.data()),
                               static_cast<std::size_t>(band_elements(n)));
  const std::int64_t columns = reduce(exponent, band, factor_in<T>(n, workspace));
  if (columns < n) {
    return columns;
  }
  if (kept != nullptr) {
    std::copy(band.begin(), band.end(), kept->band.begin());
    kept->exponent = exponent;
  }
  chase_band(band, n, diagonal, off_diagonal, level, stop);
  for (std::int64_t i = 0; i < n; ++i) {
    diagonal[i] = std::ldexp(diagonal[i], exponent);
    off_diagonal[i] = std::ldexp(off_diagonal[i], exponent);
  }
  return n;
}

template <typename T>
void solve_whole(const T* matrix, std::int64_t n, std::int64_t stride, std::span<double> diagonal,
                 std::span<double> off_diagonal, std::span<std::byte> workspace, BandForm* kept,
                 SimdLevel level, const std::stop_token& stop) {
  solve(matrix, n, stride, diagonal, off_diagonal, workspace, kept, level, stop,
        [&](int exponent, std::span<double> band, std::span<T> factor) {
          reduce_to_band(matrix, n, stride, static_cast<T>(std::ldexp(1.0, -exponent)), band,
                         factor, level, stop);
          return n;
        });
}

}  // namespace

bool tridiagonalise_is_fast(SimdLevel level) { return level >= SimdLevel::kAvx2; }

std::size_t tridiagonalise_workspace_bytes(std::int64_t n, std::size_t element_bytes) {
  return static_cast<std::size_t>(band_elements(n)) * sizeof(double) +
         static_cast<std::size_t>(band_workspace_elements(n)) * element_bytes;
}

std::span<float> band_factor(std::int64_t n, std::span<std::byte> workspace, float) {
  return factor_in<float>(n, workspace);
}
std::span<double> band_factor(std::int64_t n, std::span<std::byte> workspace, double) {
  return factor_in<double>(n, workspace);
}

void tridiagonalise(const float* matrix, std::int64_t n, std::int64_t stride,
                    std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<std::byte> workspace, BandForm* kept, SimdLevel level,
                    const std::stop_token& stop) {
  solve_whole(matrix, n, stride, diagonal, off_diagonal, workspace, kept, level, stop);
}

void tridiagonalise(const double* matrix, std::int64_t n, std::int64_t stride,
                    std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<std::byte> workspace, BandForm* kept, SimdLevel level,
                    const std::stop_token& stop) {
  solve_whole(matrix, n, stride, diagonal, off_diagonal, workspace, kept, level, stop);
}

std::int64_t tridiagonalise_in_part(const float* matrix, std::int64_t n, std::int64_t stride,
                                    std::span<double> diagonal, std::span<double> off_diagonal,
                                    std::span<std::byte> workspace, TridiagonalProbe& probe,
                                    SimdLevel level, const std::stop_token& stop) {
  return solve(matrix, n, stride, diagonal, off_diagonal, workspace, nullptr, level, stop,
               [&](int exponent, std::span<double> band, std::span<float> factor) {
                 probe.begin(exponent);
                 const std::int64_t columns = reduce_to_band_in_part(
                     matrix, n, stride, static_cast<float>(std::ldexp(1.0, -exponent)), band,
                     factor, probe, level, stop);
                 if (columns == n) {
                   probe.end(band);
                 }
                 return columns;
               });
}

}  // namespace vindex::cpu
