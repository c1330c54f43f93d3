// Owns the reduction of a band to tridiagonal form by chasing bulges. A sweep clears its column
// below the subdiagonal by a reflector H = I - tau u u^T, which acts on kBand rows and columns at a
// time:
//
//   diagonal window D:  H D H = D - u k^T - k u^T,   k = tau D u - (tau^2 u^T D u / 2) u
//   window below, B:    B H is full (the bulge); a new reflector H' clears its first column:
//                       H' B H = B - w v^T - u' z^T,   w = tau B v,   z = tau' (B - w v^T)^T u'
//
// then the same kBand rows further down with H', to the end of the band: 6 kBand n^2 flop in all.
// Source: Haidar, Ltaief, Dongarra 2011 (column-wise chasing). The rest of the bulge stays until
// the next sweeps meet it, which is what makes room below the band necessary.
//
// Why not LAPACK's sbtrd: it clears single elements by plane rotations, some n^2 of them per
// diagonal, and each reads two rows for a handful of flop. A window of kBand^2 stays in registers
// or in the nearest cache through both products that it needs.
#include "simd_band_chase.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "cpu/simd/simd_lanes.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <stop_token>

namespace vindex::cpu {
namespace {

// I - tau v v^T with v[0] = 1, acting on kBand neighbouring rows.
struct Reflector {
  alignas(64) double v[kBand];
  double tau;
};

template <int kRegisterBytes>
class Chase {
  using Register = Lanes<double, kRegisterBytes>;
  using Vector = typename Register::Vector;
  static constexpr int kCount = Register::kCount;
  static constexpr int kVectors = static_cast<int>(kBand) / kCount;
  // Independent sums that hide the latency of one multiply-add.
  static constexpr int kChains = 8 / kVectors > 0 ? 8 / kVectors : 1;

 public:
  [[gnu::always_inline]] inline Chase(double* band, std::int64_t n) : band_(band), order_(n) {}

  // A sweep may do its step k once the sweep before has done step k + 1; a group of sweeps in that
  // staircase order works on neighbouring windows, so the band passes by once per group.
  [[gnu::always_inline]] inline void run(const std::stop_token& stop) {
    const std::int64_t sweeps = order_ - 2;
    for (std::int64_t first = 0; first < sweeps; first += kGroup) {
      throw_if_stopped(stop);
      const std::int64_t members = std::min(kGroup, sweeps - first);
      const std::int64_t steps = ceil_divide(order_ - first - 1, kBand);
      for (std::int64_t time = 0; time < steps + 2 * (members - 1); ++time) {
        for (std::int64_t member = 0; member < members; ++member) {
          step(first + member, time - 2 * member, reflectors_[member]);
        }
      }
    }
  }

 private:
  // Step 0 of a sweep clears its column below the subdiagonal; each later one moves the bulge down
  // by kBand rows.
  [[gnu::always_inline]] inline void step(std::int64_t column, std::int64_t index,
                                          Reflector& reflector) {
    const std::int64_t row = column + 1 + index * kBand;
    if (index < 0 || row >= order_) {
      return;
    }
    if (index == 0) {
      Vector x[kVectors];
      load(at(row, column), x);
      store_pivot(reflect(x, reflector), at(row, column));
    } else {
      move_bulge(row - kBand, reflector);
    }
    apply_both_sides(row, reflector);
  }

  [[gnu::always_inline]] inline double* at(std::int64_t row, std::int64_t column) {
    return band_ + column * kBandStride + row;
  }

  [[gnu::always_inline]] static inline void load(const double* from, Vector* to) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Register::load(from + v * kCount, to[v]);
    }
  }

  [[gnu::always_inline]] static inline void store(const Vector* from, double* to) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Register::store(from[v], to + v * kCount);
    }
  }

  [[gnu::always_inline]] static inline void store_pivot(double beta, double* to) {
    std::fill_n(to, kBand, 0.0);
    to[0] = beta;
  }

  [[gnu::always_inline]] static inline double dot(const Vector* a, const Vector* b) {
    Vector total = a[0] * b[0];
#pragma GCC unroll 16
    for (int v = 1; v < kVectors; ++v) {
      total += a[v] * b[v];
    }
    return Register::sum(total);
  }

  // Makes the reflector that maps x to beta e_0; returns beta.
  [[gnu::always_inline]] static inline double reflect(Vector* x, Reflector& reflector) {
    const double alpha = x[0][0];
    Register::clear_below(1, x[0]);
    const double rest = dot(x, x);
    double beta = alpha;
    double inverse = 0.0;
    reflector.tau = 0.0;
    if (!(rest < kNegligibleSquare<double>)) {  // not-a-number goes on
      const double length = std::sqrt(alpha * alpha + rest);
      beta = alpha > 0.0 ? -length : length;
      inverse = 1.0 / (alpha - beta);
      reflector.tau = (beta - alpha) / beta;
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      Register::store(x[v] * inverse, reflector.v + v * kCount);
    }
    reflector.v[0] = 1.0;
    return beta;
  }

  // D := H D H on the diagonal window at `row`, lower triangle only. Above the diagonal lie other
  // columns' elements: they are read, multiplied by zero and stored back as they were.
  [[gnu::always_inline]] inline void apply_both_sides(std::int64_t row,
                                                      const Reflector& reflector) {
    double* window = at(row, row);
    Vector u[kVectors];
    load(reflector.v, u);
    Vector product[kVectors];
    multiply_symmetric(window, reflector.v, u, product);
    // H D H = D - tau u (D u)^T - tau (D u) u^T + tau^2 (u^T D u) u u^T; the last term is shared
    // between the other two.
    // K = tau D u - (tau^2 u^T D u / 2) u, so that H D H = D - u K^T - K u^T.
    const double tau = reflector.tau;
    const double half = 0.5 * tau * tau * dot(product, u);
    alignas(64) double k_values[kBand];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      product[v] = tau * product[v] - half * u[v];
    }
    store(product, k_values);
#pragma GCC unroll 16
    for (int g = 0; g < kVectors; ++g) {
      for (int l = 0; l < kCount; ++l) {
        const int j = g * kCount + l;
        double* column = window + j * kBandStride;
        const double u_j = reflector.v[j];
        const double k_j = k_values[j];
        Vector u_low = u[g];
        Vector k_low = product[g];
        Register::clear_below(l, u_low);
        Register::clear_below(l, k_low);
        update(u_low, k_low, u_j, k_j, column + g * kCount);
#pragma GCC unroll 16
        for (int v = g + 1; v < kVectors; ++v) {
          update(u[v], product[v], u_j, k_j, column + v * kCount);
        }
      }
    }
  }

  [[gnu::always_inline]] static inline void update(const Vector& u, const Vector& k, double u_j,
                                                   double k_j, double* values) {
    Vector value;
    Register::load(values, value);
    value -= u * k_j;
    value -= k * u_j;
    Register::store(value, values);
  }

  // product = D u from the lower triangle.
  [[gnu::always_inline]] static inline void multiply_symmetric(const double* window,
                                                               const double* u_values,
                                                               const Vector* u, Vector* product) {
    Vector sums[kVectors][2] = {};
    Vector across[kVectors];
#pragma GCC unroll 16
    for (int g = 0; g < kVectors; ++g) {
      Vector partial[kCount];
#pragma GCC unroll 16
      for (int l = 0; l < kCount; ++l) {
        const int j = g * kCount + l;
        const double* column = window + j * kBandStride;
        const double u_j = u_values[j];
        Vector value;
        Register::load(column + g * kCount, value);
        Vector strict = u[g];
        Register::clear_below(l + 1, strict);
        Vector total = value * strict;
        Register::clear_below(l, value);
        sums[g][l % 2] += value * u_j;
#pragma GCC unroll 16
        for (int v = g + 1; v < kVectors; ++v) {
          Register::load(column + v * kCount, value);
          total += value * u[v];
          sums[v][l % 2] += value * u_j;
        }
        partial[l] = total;
      }
      Register::sums_across(partial);
      across[g] = partial[0];
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      product[v] = sums[v][0] + sums[v][1] + across[v];
    }
  }

  // Applies `reflector` to the columns of the window below its own, which makes the bulge, and the
  // reflector that clears the bulge's first column to the rows; that one becomes `reflector`.
  [[gnu::always_inline]] inline void move_bulge(std::int64_t row, Reflector& reflector) {
    double* window = at(row + kBand, row);
    // w = tau B v.
    Vector w_sums[kChains][kVectors] = {};
    for (std::int64_t j = 0; j < kBand; j += kChains) {
#pragma GCC unroll 16
      for (int c = 0; c < kChains; ++c) {
        const double v_j = reflector.v[j + c];
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          Vector value;
          Register::load(window + (j + c) * kBandStride + v * kCount, value);
          w_sums[c][v] += value * v_j;
        }
      }
    }
    Vector w[kVectors];
    Vector x[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      w[v] = w_sums[0][v];
      for (int c = 1; c < kChains; ++c) {
        w[v] += w_sums[c][v];
      }
      w[v] *= reflector.tau;
      Register::load(window + v * kCount, x[v]);
      x[v] -= w[v];
    }
    Reflector next;
    const double beta = reflect(x, next);
    Vector u[kVectors];
    load(next.v, u);

    // Both rank-one updates go over the window at once: B is read twice, not three times.
    // z = tau' (B - w v^T)^T u, with B as it was.
    const double overlap = dot(u, w);
    alignas(64) double z[kBand];
#pragma GCC unroll 16
    for (int g = 0; g < kVectors; ++g) {
      Vector partial[kCount];
#pragma GCC unroll 16
      for (int l = 0; l < kCount; ++l) {
        const double* column = window + (g * kCount + l) * kBandStride;
        Vector value;
        Register::load(column, value);
        partial[l] = value * u[0];
#pragma GCC unroll 16
        for (int v = 1; v < kVectors; ++v) {
          Register::load(column + v * kCount, value);
          partial[l] += value * u[v];
        }
      }
      Register::sums_across(partial);
      Vector v_part;
      Register::load(reflector.v + g * kCount, v_part);
      Register::store(next.tau * (partial[0] - overlap * v_part), z + g * kCount);
    }
    for (std::int64_t j = 1; j < kBand; ++j) {
      const double v_j = reflector.v[j];
      const double z_j = z[j];
      double* column = window + j * kBandStride;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        Vector value;
        Register::load(column + v * kCount, value);
        value -= w[v] * v_j;
        value -= u[v] * z_j;
        Register::store(value, column + v * kCount);
      }
    }
    store_pivot(beta, window);
    reflector = next;
  }

  static constexpr std::int64_t kGroup = 4;

  double* band_;
  std::int64_t order_;
  Reflector reflectors_[kGroup];
};

void chase_portable(double* band, std::int64_t n, const std::stop_token& stop) {
  Chase<16>(band, n).run(stop);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void chase_avx2(double* band, std::int64_t n,
                                                    const std::stop_token& stop) {
  Chase<32>(band, n).run(stop);
}

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))) void chase_avx512(
    double* band, std::int64_t n, const std::stop_token& stop) {
  Chase<64>(band, n).run(stop);
}
#endif

}  // namespace

void chase_band(std::span<double> band, std::int64_t n, std::span<double> diagonal,
                std::span<double> off_diagonal, SimdLevel level, const std::stop_token& stop) {
  expects(static_cast<std::int64_t>(band.size()) >= band_elements(n), "band storage too small");
  expects(static_cast<std::int64_t>(diagonal.size()) == n &&
              static_cast<std::int64_t>(off_diagonal.size()) == n,
          "length of the diagonals");
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    chase_avx512(band.data(), n, stop);
  } else if (level == SimdLevel::kAvx2) {
    chase_avx2(band.data(), n, stop);
  } else {
    chase_portable(band.data(), n, stop);
  }
#else
  (void)level;
  chase_portable(band.data(), n, stop);
#endif
  for (std::int64_t i = 0; i < n; ++i) {
    diagonal[i] = band[i * kBandStride + i];
    off_diagonal[i] = i + 1 < n ? band[i * kBandStride + i + 1] : 0.0;
  }
}

}  // namespace vindex::cpu
