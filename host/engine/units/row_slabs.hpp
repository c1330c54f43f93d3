// Owns going through a matrix in slabs of whole rows as stored, decoded.
#pragma once

#include "backend/backend.hpp"
#include "decode/decode_matrix.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace vindex::engine {

/// Floats of a slab, about; `unit` rows where they have more.
inline constexpr std::int64_t kSlabValues = 1 << 20;

/// Rows of a slab of `cols` values each: a multiple of `unit`.
constexpr std::int64_t slab_rows(std::int64_t cols, std::int64_t unit = 1) {
  return std::max(unit, kSlabValues / std::max<std::int64_t>(1, cols) / unit * unit);
}

/// Memory that a pass takes: decoded floats, and encoded bytes of at most eight each where they are
/// streamed.
constexpr std::uint64_t slab_memory(std::int64_t cols, std::int64_t unit, bool streamed) {
  return static_cast<std::uint64_t>(slab_rows(cols, unit) * cols) *
         (sizeof(float) + (streamed ? sizeof(double) : 0));
}

/// Calls take(encoded, floats) for every slab of `input` in order; false as soon as one call
/// returns false. Errors: those of the input's slab functions.
template <typename Take>
bool for_each_slab(MatrixInput& input, std::int64_t unit, Take take) {
  const std::int64_t cols = input.cols();
  const std::int64_t step = slab_rows(cols, unit);
  std::vector<float> values;
  for (std::int64_t first = 0; first < input.rows(); first += step) {
    const decode::EncodedMatrix slab = input.row_slab(first, std::min(step, input.rows() - first));
    values.resize(static_cast<std::size_t>(slab.rows) * static_cast<std::size_t>(cols));
    decode::decode_matrix(slab, values.data(), cols);
    if constexpr (std::is_void_v<decltype(take(slab, std::span<const float>(values)))>) {
      take(slab, std::span<const float>(values));
    } else if (!take(slab, std::span<const float>(values))) {
      return false;
    }
  }
  return true;
}

}  // namespace vindex::engine
