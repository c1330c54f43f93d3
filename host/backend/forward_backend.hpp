// Owns the interface of back ends of forward passes. A layer asks them for products of rows of
// activations with encoded weights, and for causal attention. Arrays are host float32, row-major;
// everything else of a layer (norms, rotations, gates, routers) is computed once, on the host
// (commands/trace/forward/forward_steps.hpp), so back ends agree by construction.
#pragma once

#include "backend.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

namespace vindex {

/// y = x W^T (+ bias): y [tokens, count] of x [tokens, W's logical columns]; count logical rows
/// first, first + step, ... of W.
struct LinearCall {
  const float* x = nullptr;
  std::int64_t tokens = 0;
  std::int64_t x_stride = 0;  ///< floats between rows of x
  MatrixInput* weight = nullptr;
  std::int64_t first = 0, step = 1, count = 0;
  const float* bias = nullptr;  ///< `count` values, or null
  float* y = nullptr;
  std::int64_t y_stride = 0;
};

/// Causal attention of one prompt: of each head, softmax(scale q k^T) v over what a token may see.
struct AttentionCall {
  const float* q = nullptr;  ///< [tokens, heads * head_dim]
  const float* k = nullptr;  ///< [tokens, kv_heads * head_dim]
  const float* v = nullptr;  ///< [tokens, kv_heads * value_dim]
  float* out = nullptr;      ///< [tokens, heads * value_dim]
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  double scale = 1.0;
  double soft_cap = 0.0;         ///< 0: none
  std::int64_t window = 0;       ///< 0: none
  const float* sinks = nullptr;  ///< one per head, or null
};

/// One object per device; one call at a time. It uses as many cores as it was made for.
class ForwardBackend {
 public:
  virtual ~ForwardBackend() = default;
  virtual BackendInfo info() const = 0;
  /// Host memory for encoded weights, pinned where the back end wants it.
  virtual std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) = 0;
  /// Host memory that linear() takes beside its arrays, an upper bound, for weights of `rows` x
  /// `cols` as stored.
  virtual std::uint64_t linear_bytes(std::int64_t rows, std::int64_t cols) const = 0;
  /// The same of attention().
  virtual std::uint64_t attention_bytes(const AttentionCall& call) const = 0;
  /// Errors: Stopped, OutOfMemory, DeviceError; those of a streamed weight's source. Sums are
  /// float32 over the columns; the result does not depend on the number of threads.
  virtual void linear(const LinearCall& call, const std::stop_token& stop) = 0;
  virtual void attention(const AttentionCall& call, const std::stop_token& stop) = 0;
};

}  // namespace vindex
