// Owns float32 weights in memory seen as an encoded matrix: what was decoded or computed goes where
// encoded matrices are taken.
#pragma once

#include <vindex/decode/encoding.hpp>

#include <cstdint>

namespace vindex::decode {

/// The encoding of a tensor stored plainly as float32. It lives as long as the program.
const Encoding& float32_encoding();

/// The rows x cols floats at `values`, row-major without gaps, as a whole matrix. They must stay.
EncodedMatrix float32_view(const float* values, std::int64_t rows, std::int64_t cols);

}  // namespace vindex::decode
