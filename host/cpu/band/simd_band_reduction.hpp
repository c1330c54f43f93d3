// Owns the first stage of tridiagonalisation: a dense symmetric matrix to one of half bandwidth
// kBand, by block Householder reflections, in matrix-matrix arithmetic that reads each element of
// the trailing matrix once per kBand columns.
#pragma once

#include "band_storage.hpp"

#include "cpu/simd/simd_level.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Elements of workspace for reduce_to_band().
std::int64_t band_workspace_elements(std::int64_t n);

/// Reduces the symmetric matrix A to band form with the same eigenvalues.
///
/// Shapes    lower triangle A(i, j), j <= i, at matrix[i * stride + j]; not changed. `band` gets
///           band_elements(n) values; rows and columns beyond n are zero. It is float64 whatever A
///           is: see chase_band().
/// Scale     entries of magnitude about 1 at most: squares must neither overflow nor all underflow.
/// Errors    expects() on sizes; Stopped, looked for at every panel, here and below.
/// Source    Bischof, Lang, Sun 2000 (SBR); Dongarra, Sorensen, Hammarling 1989 (two-sided block
///           update). The update of one panel and the product with the next share one pass.
void reduce_to_band(const float* matrix, std::int64_t n, std::int64_t stride, float scale,
                    std::span<double> band, std::span<float> workspace, SimdLevel level,
                    const std::stop_token& stop = {});
void reduce_to_band(const double* matrix, std::int64_t n, std::int64_t stride, double scale,
                    std::span<double> band, std::span<double> workspace, SimdLevel level,
                    const std::stop_token& stop = {});

/// Looks at a reduction between its panels, and may end it. Spans are those of the call, in its
/// scale.
class BandProbe {
 public:
  BandProbe() = default;
  BandProbe(const BandProbe&) = delete;
  BandProbe& operator=(const BandProbe&) = delete;
  virtual ~BandProbe() = default;

  /// The first `columns` columns of the band are final, the block that couples them to the rest
  /// among them. True where the rest is to be seen.
  virtual bool wants_rest(std::span<const double> band, std::int64_t columns) = 0;
  /// Room for `order` x `order` elements; float32 whatever the matrix is.
  virtual float* room_for_rest(std::int64_t order) = 0;
  /// The rest, C in Q^T A Q = [[B, E^T], [E, C]], is there: element (i, j), j <= i, at i * order +
  /// j. True ends the reduction.
  virtual bool is_enough(std::span<const double> band, std::int64_t columns,
                         std::int64_t order) = 0;
};

/// reduce_to_band() from a pseudo-random block of kBand columns, the same in every run, in place of
/// the first ones of A: after m columns the band is that of block Lanczos, the projection of A on
/// the Krylov space of the block (Golub and Underwood 1977), by reflectors instead of products. So
/// the ends of the spectrum are in it long before the reduction is. Asks `probe` after every panel;
/// returns the columns of the band that are final, n where it went to the end. The factor is not
/// kept.
std::int64_t reduce_to_band_in_part(const float* matrix, std::int64_t n, std::int64_t stride,
                                    float scale, std::span<double> band, std::span<float> workspace,
                                    BandProbe& probe, SimdLevel level,
                                    const std::stop_token& stop = {});

/// reduce_to_band() of a float64 matrix that ends where `probe` says so, which is asked after every
/// panel: what is left may then be reduced in float32. Returns the columns of the band that are
/// final, n where it went to the end. The factor of those columns is kept.
std::int64_t begin_band(const double* matrix, std::int64_t n, std::int64_t stride, double scale,
                        std::span<double> band, std::span<double> workspace, BandProbe& probe,
                        SimdLevel level, const std::stop_token& stop = {});

/// block = Q block, or Q^T block, where A = Q B Q^T and B is the band that reduce_to_band() left;
/// `columns` is n, or what begin_band() returned: Q is the factor of so many columns.
///
/// Shapes    block: band_order(n) x count, row-major, count a multiple of kBand; rows beyond n
/// zero.
///           `workspace`: as the reduction of that A left it (not changed but for scratch).
/// Accuracy  backward stable: a few eps of the element type times the columns' norms.
void apply_band_factor(std::int64_t n, bool transposed, std::int64_t columns,
                       std::span<float> block, std::int64_t count, std::span<float> workspace,
                       SimdLevel level, const std::stop_token& stop = {});
void apply_band_factor(std::int64_t n, bool transposed, std::int64_t columns,
                       std::span<double> block, std::int64_t count, std::span<double> workspace,
                       SimdLevel level, const std::stop_token& stop = {});

}  // namespace vindex::cpu
