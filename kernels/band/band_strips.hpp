// Owns the order in which blocks of threads take the strips of a batch of trailing matrices.
//
// The longest strips go first, so that the last blocks of a launch are short and multiprocessors
// end together. But strips of one matrix read the same factors: matrices go by groups whose factors
// fit into the L2 cache, the longest strips first within a group.
#pragma once

#include "band_panel.hpp"
#include "trailing_pass.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace vindex::kernels {

/// Matrices of a group: what their factors may take of the cache, of which the A100 has 40 MB and
/// the H100 50 MB.
inline constexpr std::int64_t kCachedFactorBytes = std::int64_t{24} << 20U;
template <typename Real>
std::int64_t matrices_per_group(const TrailingPass<Real>& pass) {
  const std::int64_t each = pass.rows * kFactorStride * static_cast<std::int64_t>(sizeof(Real));
  return std::clamp<std::int64_t>(kCachedFactorBytes / each, 1, pass.batch);
}

/// Blocks of a launch, in x.
template <typename Real>
unsigned strip_blocks(const TrailingPass<Real>& pass) {
  return static_cast<unsigned>(strip_count(pass.rows, pass.strip_rows) * pass.batch);
}

struct StripPlace {
  std::int64_t matrix;
  std::int64_t strip;
};
/// That of this block, in a launch of strip_blocks() blocks.
template <typename Real>
__device__ StripPlace strip_place(const TrailingPass<Real>& pass, std::int64_t group) {
  const auto strips = static_cast<unsigned>(strip_count(pass.rows, pass.strip_rows));
  const auto together = static_cast<unsigned>(group);
  const unsigned first = blockIdx.x / (strips * together) * together;
  const unsigned here = min(together, static_cast<unsigned>(pass.batch) - first);
  const unsigned within = blockIdx.x - first * strips;
  return {first + within % here, strips - 1 - within / here};
}

}  // namespace vindex::kernels
