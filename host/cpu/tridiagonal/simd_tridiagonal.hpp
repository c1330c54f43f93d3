// Owns the tridiagonalisation of a symmetric matrix, values only: dense to band to tridiagonal.
#pragma once
#include "cpu/band/band_storage.hpp"
#include "cpu/band/simd_band_reduction.hpp"
#include "cpu/simd/simd_level.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// True where tridiagonalise() beats LAPACK's one-stage sytrd; elsewhere it is a reference.
bool tridiagonalise_is_fast(SimdLevel level = best_simd_level());

/// Bytes of workspace: about one more matrix and 1/4 of it.
std::size_t tridiagonalise_workspace_bytes(std::int64_t n, std::size_t element_bytes);
/// The part of it that apply_band_factor() wants.
std::span<float> band_factor(std::int64_t n, std::span<std::byte> workspace, float);
std::span<double> band_factor(std::int64_t n, std::span<std::byte> workspace, double);

/// The band between the two stages: 2^-exponent A = Q B Q^T, Q in the workspace for
/// apply_band_factor() as long as that is left alone.
struct BandForm {
  std::span<double> band;  ///< B, band_elements(n) values, layout of reduce_to_band()
  int exponent = 0;
};

/// Tridiagonal matrix with the eigenvalues of the symmetric matrix A.
///
/// Shapes    lower triangle A(i, j), j <= i, at matrix[i * stride + j] (LAPACK's "U" of a
///           column-major matrix), not changed; diagonal and off_diagonal: n values, the last
///           off_diagonal zero.
/// Accuracy  ||error||_2 a few eps of the element type times ||A||: float32 at n = 2048:
///           6e-8 on noise, up to 2e-6 on a cluster at the top (ssytrd: 1e-7, 2e-5).
/// Range     any finite A (scaled by a power of two inside); a non-finite entry makes all NaN.
/// Band      where `kept` is given, its band is filled (zero where A is zero or not finite).
/// Memory    `workspace`: tridiagonalise_workspace_bytes(n, sizeof element), aligned to 64 bytes.
/// Errors    expects() on sizes; Stopped.
/// Source    see simd_band_reduction.hpp.
void tridiagonalise(const float* matrix, std::int64_t n, std::int64_t stride,
                    std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<std::byte> workspace, BandForm* kept = nullptr,
                    SimdLevel level = best_simd_level(), const std::stop_token& stop = {});
void tridiagonalise(const double* matrix, std::int64_t n, std::int64_t stride,
                    std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<std::byte> workspace, BandForm* kept = nullptr,
                    SimdLevel level = best_simd_level(), const std::stop_token& stop = {});

/// What ends a tridiagonalisation early, in units of 2^exponent of the matrix.
class TridiagonalProbe : public BandProbe {
 public:
  virtual void begin(int exponent) = 0;
  /// The band of the whole matrix, before it is reduced further: it went to the end.
  virtual void end(std::span<const double> band) = 0;
};

/// tridiagonalise() of reduce_to_band_in_part(). Returns the columns that were reduced; where they
/// are fewer than n, `probe` said so, and the diagonals are not written.
std::int64_t tridiagonalise_in_part(const float* matrix, std::int64_t n, std::int64_t stride,
                                    std::span<double> diagonal, std::span<double> off_diagonal,
                                    std::span<std::byte> workspace, TridiagonalProbe& probe,
                                    SimdLevel level = best_simd_level(),
                                    const std::stop_token& stop = {});

/// Says when a reduction that begins in float64 may go on in float32.
class NarrowRule {
 public:
  NarrowRule() = default;
  NarrowRule(const NarrowRule&) = delete;
  NarrowRule& operator=(const NarrowRule&) = delete;
  virtual ~NarrowRule() = default;

  /// Whether what is left, of this ||C||_F^2 and order, may be reduced in float32.
  virtual bool allows(double norm_squared, std::int64_t order) const = 0;
};

/// How a reduction that begins in float64 may go on in float32, and where it did.
struct NarrowRest {
  double norm_squared = 0.0;  ///< ||A||_F^2
  const NarrowRule* rule = nullptr;
  float* room = nullptr;  ///< n x n elements (n in whole blocks); may be the matrix itself
  std::span<std::byte> workspace = {};  ///< tridiagonalise_workspace_bytes(n, sizeof(float))

  std::int64_t columns = 0;       ///< reduced in float64, n: all
  double largest_diagonal = 0.0;  ///< of what was left then
  double left_norm_squared = 0.0;
};

/// Order of what is left behind `columns`.
constexpr std::int64_t rest_order(std::int64_t n, std::int64_t columns) {
  return band_order(n) - columns;
}

/// tridiagonalise() in float64 for as long as float32 would lose more than it may: a reduction
/// takes the large eigenvalues out first, as block Lanczos does, so that of a spectrum that falls
/// what is left is soon small, and with it the rounding of every entry. `rest.workspace` holds the
/// factor of the part in float32, of order rest_order().
void tridiagonalise_mixed(const double* matrix, std::int64_t n, std::int64_t stride,
                          std::span<double> diagonal, std::span<double> off_diagonal,
                          std::span<std::byte> workspace, NarrowRest& rest,
                          BandForm* kept = nullptr, SimdLevel level = best_simd_level(),
                          const std::stop_token& stop = {});

}  // namespace vindex::cpu
