// Owns what the tests of rewriting share: weights, encodings with scales, a matrix written anew.
#pragma once

#include "decode/encode/rewrite_matrix.hpp"
#include "tests/support/encoded_weights.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vindex::decode {

using vindex::testing::encoded_weights;
using vindex::testing::EncodedWeights;

inline const std::string kWhere = "tensor \"w\"";

inline std::vector<float> normals(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return draw(random); });
  return values;
}

/// `original` with `values`; `counts` says how.
inline EncodedWeights rewritten(const EncodedWeights& original, const std::vector<float>& values,
                                RewriteCounts* counts = nullptr) {
  EncodedWeights out = original;
  const RewriteCounts done =
      rewrite_matrix(original.view(), values.data(), original.cols, out.codes, out.scales, kWhere);
  if (counts != nullptr) {
    *counts = done;
  }
  return out;
}

inline const std::vector<Encoding>& scaled_encodings() {
  static const std::vector<Encoding> encodings = {
      plain_encoding(ElementType::kQ4_0), plain_encoding(ElementType::kQ4_1),
      plain_encoding(ElementType::kQ5_0), plain_encoding(ElementType::kQ5_1),
      plain_encoding(ElementType::kQ8_0), fp8_block_encoding(128, 128),
      packed_int_encoding(4, 32)};
  return encodings;
}

inline std::int64_t block_width(const Encoding& encoding) {
  return encoding.scheme == Scheme::kPlain ? element_type_row(encoding.type).block_elements
                                           : encoding.block_cols;
}

}  // namespace vindex::decode
