// Owns the host's way from encoded bytes to float32 weights, all of them or every so-manyth. Values
// are bit-equal on every back end and equal to what `vindex decode` writes.
#pragma once

#include "simd_level.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::decode {

/// Decodes `matrix` (rows x cols as stored) to `out`, row-major with `out_stride` >= cols floats
/// between rows. F64, I32 and I64 are rounded to nearest; a double beyond float32 becomes infinite.
///
/// Threads  pure; safe to call concurrently on different outputs.
/// Speed    chosen at run time among SIMD variants; all give the same bits.
/// Errors   expects() on an encoding that is not decodable.
void decode_matrix(const EncodedMatrix& matrix, float* out, std::int64_t out_stride);

/// The same with the variant forced (tests, benchmarks). Errors: expects() on a level this
/// processor cannot run.
void decode_matrix_at(SimdLevel level, const EncodedMatrix& matrix, float* out,
                      std::int64_t out_stride);

/// Decodes `codes`, stored values or whole blocks one behind the other, as one long row: blocks
/// never cross rows. Errors as decode_matrix()'s.
void decode_row(const Encoding& encoding, std::span<const std::byte> codes, std::span<float> out);

/// Of the weights number 0, stride, 2 stride, ... of a whole matrix of `whole_cols` columns,
/// counted row by row as stored, those that lie in `view` (its first_row and first_col say where it
/// is): out[i] becomes weight number i stride. Returns how many were written. Bits as
/// decode_matrix()'s. Errors: expects() on an encoding not decodable.
std::int64_t decode_strided(const EncodedMatrix& view, std::int64_t whole_cols, std::int64_t stride,
                            std::span<float> out);

}  // namespace vindex::decode
