// Owns the host's way from encoded bytes to float32 weights, all of them or every so-manyth, the
// moments taken on the way, and the processor-specific variants of either. Values are bit-equal on
// every back end and equal to what `vindex decode` writes. One binary serves every x86-64: the best
// level is chosen at run time, and all levels give the same bits.
#pragma once

#include "encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace vindex::decode {

/// Decodes `matrix` (rows x cols as stored) to `out`, row-major with `out_stride` >= cols floats
/// between rows. F64, I32 and I64 are rounded to nearest; a double beyond float32 becomes infinite.
///
/// Threads  pure; safe to call concurrently on different outputs.
/// Speed    chosen at run time among SIMD variants; all give the same bits.
/// Errors   expects() on an encoding that is not decodable.
void decode_matrix(const EncodedMatrix& matrix, float* out, std::int64_t out_stride);

/// Decodes `codes`, stored values or whole blocks one behind the other, as one long row: blocks
/// never cross rows. Errors as decode_matrix()'s.
void decode_row(const Encoding& encoding, std::span<const std::byte> codes, std::span<float> out);

/// Sums over decoded weights, mergeable so that a tensor's statistics come from its slices and
/// tiles. Central sums are about the mean; all float64. Nonfinite values are counted and left out
/// of everything else.
struct Moments {
  std::int64_t count = 0;  ///< finite values
  std::int64_t zeros = 0;
  std::int64_t nonfinite = 0;
  double mean = 0.0;
  double m2 = 0.0;  ///< sum (w - mean)^2
  double m3 = 0.0;
  double m4 = 0.0;
  double sum_squares = 0.0;  ///< sum w^2: frobenius_norm^2
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double max_abs() const { return count == 0 ? 0.0 : (max > -min ? max : -min); }
};

/// Moments of rows x cols floats with `stride` floats between rows. The result depends on the shape
/// alone, not on the SIMD variant used: sums run over fixed lanes. Cost about one read of the data.
Moments moments_of(const float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride);

/// Moments of the union of two disjoint sets (Chan, Golub, LeVeque 1983; Pebay 2008 for m3, m4).
Moments merge(const Moments& a, const Moments& b);

/// Derived numbers; NaN where count is 0 (std: population, sqrt(m2/count); excess kurtosis:
/// count*m4/m2^2 - 3).
double standard_deviation(const Moments& moments);
double excess_kurtosis(const Moments& moments);

/// Of the weights number 0, stride, 2 stride, ... of a whole matrix of `whole_cols` columns,
/// counted row by row as stored, those that lie in `view` (its first_row and first_col say where it
/// is): out[i] becomes weight number i stride. Returns how many were written. Bits as
/// decode_matrix()'s. Errors: expects() on an encoding not decodable.
std::int64_t decode_strided(const EncodedMatrix& view, std::int64_t whole_cols, std::int64_t stride,
                            std::span<float> out);

enum class SimdLevel : std::uint8_t { kBaseline, kAvx2, kAvx512, kCount };

/// "baseline", "avx2", "avx512".
std::string_view simd_level_name(SimdLevel level);

/// True where this processor and operating system can run `level`.
bool is_supported(SimdLevel level);

/// The highest supported level: what decode_matrix() and moments_of() use.
SimdLevel best_simd_level();

/// As decode_matrix() and moments_of(), with the variant forced (tests, benchmarks). Errors:
/// expects() on a level this processor cannot run.
void decode_matrix_at(SimdLevel level, const EncodedMatrix& matrix, float* out,
                      std::int64_t out_stride);
Moments moments_of_at(SimdLevel level, const float* values, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride);

}  // namespace vindex::decode
