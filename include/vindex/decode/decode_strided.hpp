// Owns taking every so-manyth weight of an encoded matrix, without decoding what lies between.
#pragma once

#include <vindex/decode/encoding.hpp>

#include <cstdint>
#include <span>

namespace vindex::decode {

/// Of the weights number 0, stride, 2 stride, ... of a whole matrix of `whole_cols` columns,
/// counted row by row as stored, those that lie in `view` (its first_row and first_col say where it
/// is): out[i] becomes weight number i stride. Returns how many were written. Bits as
/// decode_matrix()'s. Errors: expects() on an encoding not decodable.
std::int64_t decode_strided(const EncodedMatrix& view, std::int64_t whole_cols, std::int64_t stride,
                            std::span<float> out);

}  // namespace vindex::decode
