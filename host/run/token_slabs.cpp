// Owns how many tokens a slab holds, and the loop over slabs.
#include "token_slabs.hpp"

#include <algorithm>

namespace vindex::run {

std::int64_t slab_tokens(std::int64_t width, std::int64_t step) {
  const std::int64_t tokens = std::max<std::int64_t>(1, kSlabValues / width);
  return std::max(step, tokens / step * step);
}

std::uint64_t slab_memory(std::int64_t width, std::int64_t step, bool streamed) {
  const auto values =
      static_cast<std::uint64_t>(slab_tokens(width, step)) * static_cast<std::uint64_t>(width);
  return values * (sizeof(float) + (streamed ? sizeof(double) : 0));
}

void for_each_slab(
    measure::MatrixInput& input, std::int64_t step,
    const std::function<void(const decode::EncodedMatrix&, std::span<const float>)>& take) {
  const std::int64_t width = input.cols();
  const std::int64_t most = slab_tokens(width, step);
  std::vector<float> values;
  for (std::int64_t first = 0; first < input.rows(); first += most) {
    const std::int64_t count = std::min(most, input.rows() - first);
    const decode::EncodedMatrix slab = input.row_slab(first, count);
    values.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(width));
    decode::decode_matrix(slab, values.data(), width);
    take(slab, values);
  }
}

}  // namespace vindex::run
