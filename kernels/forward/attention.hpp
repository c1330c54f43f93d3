// Owns causal attention on the device: softmax over what a token may see, in one pass over tiles of
// keys, of which no row of scores is ever stored whole. Ordered on `stream`; does not synchronise.
// Source: Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022 (tiles).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Queries of one block of threads.
inline constexpr std::int64_t kAttentionQueries = 64;

/// Some queries of some heads, everything on the device. Token t sees tokens j <= t, and of these
/// the last `window`.
struct AttentionRun {
  const float* q = nullptr;  ///< [queries, heads, head_dim]
  const float* k = nullptr;  ///< [first_query + queries at least, heads / group, head_dim]
  const float* v = nullptr;  ///< [..., heads / group, value_dim]
  float* out = nullptr;      ///< [queries, heads, value_dim]
  std::int64_t first_query = 0, queries = 0;
  std::int64_t heads = 0;                    ///< at most 65535
  std::int64_t group = 1;                    ///< heads that share keys and values
  std::int64_t head_dim = 0, value_dim = 0;  ///< any
  float scale = 1.0F;
  float soft_cap = 0.0F;         ///< scores become cap * tanh(score / cap); 0: none
  std::int64_t window = 0;       ///< 0: none
  const float* sinks = nullptr;  ///< a score per head that takes part in the sum alone, or null
};

/// float32, sums in a fixed order. A value that is not finite reaches the tokens of its own tile of
/// 64 that may not see it too.
void attend(const AttentionRun& run, cudaStream_t stream);

}  // namespace vindex::kernels
