// Owns the two candidates for a new fp8 scale and the errors by which they are compared.
#include "rewrite_fp8.hpp"

#include "encode.hpp"

#include "decode/formats/float_formats.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace vindex::decode {

double fp8_error(std::uint8_t code, float scale, float value) {
  const double difference =
      static_cast<double>(e4m3_to_float(code) * scale) - static_cast<double>(value);
  return difference * difference;
}

Fp8Block fp8_by_encoder(const Fp8Weights& weights) {
  Fp8Block out;
  out.codes.resize(static_cast<std::size_t>(weights.rows * weights.cols));
  const Encoding whole = fp8_block_encoding(static_cast<std::int32_t>(weights.rows),
                                            static_cast<std::int32_t>(weights.cols));
  out.error = encode_matrix(whole, weights.values, weights.rows, weights.cols, weights.stride,
                            std::as_writable_bytes(std::span(out.codes)),
                            std::as_writable_bytes(std::span(&out.scale, 1)))
                  .squared_error;
  return out;
}

Fp8Block fp8_with_room(const Fp8Weights& weights, float scale, float largest_code) {
  Fp8Block out;
  const float beyond = std::max(largest_code / kBeyondE4m3, 1.0F);
  out.scale = std::ldexp(scale, std::ilogb(beyond) + 1);
  out.codes.reserve(static_cast<std::size_t>(weights.rows * weights.cols));
  for (std::int64_t row = 0; row < weights.rows; ++row) {
    for (std::int64_t col = 0; col < weights.cols; ++col) {
      const float value = weights.values[row * weights.stride + col];
      out.codes.push_back(encode_e4m3(value / out.scale));
      out.error += fp8_error(out.codes.back(), out.scale, value);
    }
  }
  return out;
}

}  // namespace vindex::decode
