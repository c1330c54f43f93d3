// Owns tridiagonalisation in two stages, dense to band to tridiagonal, and the scale that both
// need: A is multiplied by a power of two that brings its entries below 1, so that sums of squares
// neither overflow nor lose what matters to underflow, and the result is multiplied back. Both are
// exact. Why two stages stands in band/simd_band_reduction.cpp.
#include "simd_tridiagonal.hpp"

#include "cpu/band/band_storage.hpp"
#include "cpu/band/simd_band_chase.hpp"
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

// Of the scale that brings entries below 1: sums of n squares are far from overflow, and what
// underflows when squared is below any rounding error.
template <typename T>
int exponent_of(double largest) {
  return std::clamp(std::ilogb(largest) + 1, std::numeric_limits<T>::min_exponent,
                    std::numeric_limits<T>::max_exponent);
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
  const int exponent = exponent_of<T>(largest);
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

/// Ends a float64 reduction where its rest may go on in float32.
class RestProbe final : public BandProbe {
 public:
  RestProbe(NarrowRest& rest, int exponent)
      : rest_(rest), exponent_(exponent), left_(std::ldexp(rest.norm_squared, -2 * exponent)) {
    // Below this, what is left is rounding of the differences that it is known by.
    floor_ = 8.0 * std::numeric_limits<double>::epsilon() * left_;
  }

  bool wants_rest(std::span<const double> band, std::int64_t columns) override {
    for (std::int64_t j = columns - kBand; j < columns; ++j) {
      const double* const column = band.data() + j * kBandStride + j;
      left_ -= column[0] * column[0];
      for (std::int64_t i = 1; i <= kBand; ++i) {
        left_ -= 2.0 * column[i] * column[i];
      }
    }
    rest_.left_norm_squared = std::ldexp(std::max(left_, floor_), 2 * exponent_);
    return rest_.rule->allows(rest_.left_norm_squared, rest_order(n_of(band), columns));
  }
  float* room_for_rest(std::int64_t /*order*/) override { return rest_.room; }
  bool is_enough(std::span<const double> /*band*/, std::int64_t /*columns*/,
                 std::int64_t /*order*/) override {
    return true;
  }

 private:
  static std::int64_t n_of(std::span<const double> band) {
    return static_cast<std::int64_t>(band.size()) / (kBandStride + 1) - 3 * kBand;
  }

  NarrowRest& rest_;
  int exponent_;
  double left_;
  double floor_ = 0.0;
};

/// The band of what is left behind `rest.columns`, to its place in `band`.
void reduce_rest(std::int64_t n, int exponent, std::span<double> band, NarrowRest& rest,
                 SimdLevel level, const std::stop_token& stop) {
  const std::int64_t order = rest_order(n, rest.columns);
  for (std::int64_t i = 0; i < order; ++i) {
    rest.largest_diagonal =
        std::max(rest.largest_diagonal, static_cast<double>(rest.room[i * order + i]));
  }
  rest.largest_diagonal = std::ldexp(rest.largest_diagonal, exponent);
  const double largest = largest_magnitude(rest.room, order, order);
  if (!(largest > 0.0)) {
    return;
  }
  const int own = exponent_of<float>(largest);
  const std::span<double> part(reinterpret_cast<double*>(rest.workspace.data()),
                               static_cast<std::size_t>(band_elements(order)));
  reduce_to_band(rest.room, order, order, static_cast<float>(std::ldexp(1.0, -own)), part,
                 factor_in<float>(order, rest.workspace), level, stop);
  double* const to = band.data() + rest.columns * (kBandStride + 1);
  for (std::size_t i = 0; i < part.size(); ++i) {
    to[i] = std::ldexp(part[i], own);
  }
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

void tridiagonalise_mixed(const double* matrix, std::int64_t n, std::int64_t stride,
                          std::span<double> diagonal, std::span<double> off_diagonal,
                          std::span<std::byte> workspace, NarrowRest& rest, BandForm* kept,
                          SimdLevel level, const std::stop_token& stop) {
  expects(rest.rule != nullptr && rest.room != nullptr &&
              rest.workspace.size() >= tridiagonalise_workspace_bytes(n, sizeof(float)),
          "room for the part in float32");
  rest.columns = n;
  rest.largest_diagonal = 0.0;
  solve(matrix, n, stride, diagonal, off_diagonal, workspace, kept, level, stop,
        [&](int exponent, std::span<double> band, std::span<double> factor) {
          RestProbe probe(rest, exponent);
          rest.columns = begin_band(matrix, n, stride, std::ldexp(1.0, -exponent), band, factor,
                                    probe, level, stop);
          if (rest.columns < n) {
            reduce_rest(n, exponent, band, rest, level, stop);
          }
          return n;
        });
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
