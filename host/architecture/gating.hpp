// Owns how the gate and the up projection of a feed-forward become its neurons: a value, no
// behaviour. Read from a model by model/transformer/transformer.hpp, applied by
// commands/trace/forward/forward_steps.hpp.
#pragma once

#include <cstdint>

namespace vindex {

enum class Gating : std::uint8_t {
  kSilu,      ///< silu(gate) * up
  kGeluTanh,  ///< gelu by tanh
  kGelu,      ///< gelu by erf
  kClamped,   ///< gpt-oss: gate at most L, up within +-L; gate * sigmoid(1.702 gate) * (up + 1)
};

}  // namespace vindex
