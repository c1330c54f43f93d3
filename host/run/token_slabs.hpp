// Owns reading a dumped matrix as floats, some tokens at a time.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vindex::run {

/// Floats of a slab, about; one token where it has more.
inline constexpr std::int64_t kSlabValues = 1 << 20;

/// Tokens of a slab of `width` values each: a multiple of `step`.
std::int64_t slab_tokens(std::int64_t width, std::int64_t step = 1);

/// Memory that a pass takes: decoded floats, and encoded bytes of at most eight each where they are
/// streamed.
std::uint64_t slab_memory(std::int64_t width, std::int64_t step, bool streamed);

/// Calls take(encoded, floats) for every slab of `input` (tokens x width) in order. Errors: those
/// of the input's slab functions.
void for_each_slab(
    measure::MatrixInput& input, std::int64_t step,
    const std::function<void(const decode::EncodedMatrix&, std::span<const float>)>& take);

}  // namespace vindex::run
