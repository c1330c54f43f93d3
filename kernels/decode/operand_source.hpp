// Owns the encodings that the operand kernel of Gram matrices reads by itself.
#pragma once

#include <cstdint>

namespace vindex::kernels {

/// What the operand kernel reads. The formats that hold most large models it reads by itself
/// (code_runs.hpp); others are decoded to float32 in the workspace first, by decode_matrix().
enum class OperandSource : std::uint8_t { kF32, kF16, kBF16, kScaledE4M3, kScaledInt4, kDecoded };

}  // namespace vindex::kernels
