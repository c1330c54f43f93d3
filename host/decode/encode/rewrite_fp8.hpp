// Owns new scales of a fp8 block whose old one cannot hold its new weights: the encoder's, and one
// that is a power of two times the old one. Under the latter a code that is no subnormal means what
// it meant, so that weights which did not change keep their values.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::decode {

/// The largest code, 448, and half the step below it.
inline constexpr float kBeyondE4m3 = 464.0F;

/// Squared distance of `value` to what `code` means under `scale`.
double fp8_error(std::uint8_t code, float scale, float value);

/// The new weights of a block, row-major.
struct Fp8Weights {
  const float* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;
};

struct Fp8Block {
  std::vector<std::uint8_t> codes;  ///< rows x cols
  float scale = 0.0F;
  double error = 0.0;  ///< squared distance to the weights
};

/// As encode_matrix() writes it.
Fp8Block fp8_by_encoder(const Fp8Weights& weights);

/// Under the least power of two times `scale` that holds weights of `largest_code` times it.
Fp8Block fp8_with_room(const Fp8Weights& weights, float scale, float largest_code);

}  // namespace vindex::decode
