// Owns the k of var_at_k (metrics contract).
#pragma once

#include <array>
#include <cstdint>

namespace vindex::measure {

/// The k of var_at_k.
inline constexpr std::array<std::int32_t, 9> kVarAtK = {1, 2, 4, 8, 16, 32, 64, 128, 256};

}  // namespace vindex::measure
