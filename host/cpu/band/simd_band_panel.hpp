// Owns the Householder QR of one block column of the band reduction, in registers of
// kRegisterBytes. Per column, with alpha its pivot and x what stands below it:
//
//   beta = -sign(alpha) sqrt(alpha^2 + |x|^2),   tau = (beta - alpha) / beta,
//   v = [1, x / (alpha - beta)],   column j: P_j -= tau (v^T P_j) v
//
// Source: LAPACK larfg and geqr2. The sign of beta is the one that does not cancel. |x|^2 is summed
// in float64, since its rounding would be that of the whole reflector.
//
// geqr2 passes over the rows twice per column, once for the products v^T P_j and once to apply
// them. Here the pass that applies reflector k also sums x^T P_j of column k + 1, x not yet scaled:
// v^T P_j is P_kj + x^T P_j / (alpha - beta). So reflectors stay unscaled in the panel, and readers
// scale them. Why not a Cholesky QR, which would be products of matrices: it wants columns of a
// condition below eps^-1/2, and panels of a Gram matrix may be dependent.
#pragma once

#include "band_storage.hpp"

#include "core/constants.hpp"
#include "cpu/simd/simd_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vindex::cpu {

/// The trailing matrix lives in strips of this many columns, rows contiguous, so that a block is a
/// run of memory: no row stride that is a power of two, few pages.
constexpr std::int64_t kStrip = 2 * kBand;
/// Rows whose products are summed in one accumulator.
constexpr std::int64_t kRowChunk = 64;

template <typename T, int kRegisterBytes>
class BandPanel {
  using Register = Lanes<T, kRegisterBytes>;
  using Vector = typename Register::Vector;
  static constexpr int kVectors = static_cast<int>(kBand) / Register::kCount;

 public:
  /// QR in place of the `rows` x kBand panel, rows kStrip apart: R above the diagonal and on it,
  /// below it reflectors that are to be scaled by inverses[column]. One pass over the rows per
  /// reflector: it applies reflector k and forms the products that reflector k + 1 needs.
  [[gnu::always_inline]] static inline void factor(T* panel, std::int64_t rows, T* taus,
                                                   T* inverses) {
    alignas(64) T sums[kBand];
    double norm_squared = sum_products(panel, rows, 0, sums);
    for (std::int64_t k = 0; k < kBand; ++k) {
      T* pivot_row = panel + k * kStrip;
      const T alpha = pivot_row[k];
      const auto wide_alpha = static_cast<double>(alpha);
      T beta = alpha;
      T inverse = T{0};
      T tau = T{0};
      if (!(norm_squared < kNegligibleSquare<T>)) {  // not-a-number goes on
        const double length = std::sqrt(wide_alpha * wide_alpha + norm_squared);
        const double wide_beta = wide_alpha > 0.0 ? -length : length;
        beta = static_cast<T>(wide_beta);
        inverse = static_cast<T>(1.0 / (wide_alpha - wide_beta));
        tau = static_cast<T>((wide_beta - wide_alpha) / wide_beta);
      }
      inverses[k] = inverse;
      taus[k] = tau;
      alignas(64) T factors[kBand];
      for (std::int64_t j = 0; j < kBand; ++j) {
        const T dot = j > k ? tau * (pivot_row[j] + inverse * sums[j]) : T{0};
        pivot_row[j] -= dot;
        factors[j] = -inverse * dot;
      }
      pivot_row[k] = beta;
      norm_squared = apply_and_sum(panel, rows, k, factors, sums);
    }
  }

 private:
  // sums[j] = sum over rows > k of P(row, k) P(row, j); returns the squared norm among them.
  [[gnu::always_inline]] static inline double sum_products(const T* panel, std::int64_t rows,
                                                           std::int64_t k, T* sums) {
    std::fill_n(sums, kBand, T{0});
    double norm_squared = 0.0;
    for (std::int64_t first = k + 1; first < rows; first += kRowChunk) {
      const std::int64_t end = std::min(rows, first + kRowChunk);
      Vector total[kVectors] = {};
      for (std::int64_t row = first; row < end; ++row) {
        add_row_products(panel + row * kStrip, k, total, norm_squared);
      }
      add_to(total, sums);
    }
    return norm_squared;
  }

  [[gnu::always_inline]] static inline void add_row_products(const T* row, std::int64_t k,
                                                             Vector* total, double& norm_squared) {
    const T x = row[k];
    norm_squared += static_cast<double>(x) * static_cast<double>(x);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      Register::load(row + v * Register::kCount, value);
      total[v] += x * value;
    }
  }

  [[gnu::always_inline]] static inline void add_to(const Vector* total, T* sums) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      Register::load(sums + v * Register::kCount, value);
      Register::store(value + total[v], sums + v * Register::kCount);
    }
  }

  // P(row, :) += P(row, k) * factors for rows > k, then sum_products() of column k + 1.
  [[gnu::always_inline]] static inline double apply_and_sum(T* panel, std::int64_t rows,
                                                            std::int64_t k, const T* factors,
                                                            T* sums) {
    Vector factor[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Register::load(factors + v * Register::kCount, factor[v]);
    }
    std::fill_n(sums, kBand, T{0});
    if (k + 1 >= kBand || k + 1 >= rows) {
      return 0.0;
    }
    apply_row(panel + (k + 1) * kStrip, k, factor);
    double norm_squared = 0.0;
    for (std::int64_t first = k + 2; first < rows; first += kRowChunk) {
      const std::int64_t end = std::min(rows, first + kRowChunk);
      Vector total[kVectors] = {};
      for (std::int64_t row = first; row < end; ++row) {
        apply_row(panel + row * kStrip, k, factor);
        add_row_products(panel + row * kStrip, k + 1, total, norm_squared);
      }
      add_to(total, sums);
    }
    return norm_squared;
  }

  [[gnu::always_inline]] static inline void apply_row(T* row, std::int64_t k,
                                                      const Vector* factor) {
    const T x = row[k];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      Register::load(row + v * Register::kCount, value);
      Register::store(value + x * factor[v], row + v * Register::kCount);
    }
  }
};

}  // namespace vindex::cpu
