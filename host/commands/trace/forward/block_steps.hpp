// Owns what the blocks of a layer are made of: rows in memory, projections with their biases,
// norms, the residual stream. Private to layer_blocks.hpp's sources.
#pragma once

#include "layer_tools.hpp"

#include "core/integers.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace vindex::commands {

/// Rows of float32, not set.
class BlockRows {
 public:
  BlockRows(std::int64_t rows, std::int64_t width)
      : width_(width), values_(std::make_unique_for_overwrite<float[]>(as_size(rows * width))) {}
  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }
  float* row(std::int64_t i) { return values_.get() + i * width_; }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t width_;
  std::unique_ptr<float[]> values_;
};

inline std::span<float> span_of(float* values, std::int64_t count) {
  return {values, as_size(count)};
}
inline std::span<const float> span_of(const float* values, std::int64_t count) {
  return {values, as_size(count)};
}

/// Rows [first, first + count) of a projection.
struct LinearPart {
  const model::Linear& linear;
  std::int64_t first = 0, count = 0;
};
inline LinearPart all_of(const model::Linear& linear) {
  return {linear, 0, linear.weight.rows.count};
}

struct Strided {
  float* values = nullptr;
  std::int64_t stride = 0;
};

/// Errors: those of reading the weight and of ForwardBackend::linear().
void project(const LayerTools& tools, const LinearPart& part, std::int64_t tokens, const float* x,
             std::int64_t x_stride, const Strided& out);

/// A norm with the epsilon that it has.
struct Norm {
  const model::VectorRef& weight;
  double eps = 0.0;
};

/// Every row of `x` by itself, `width` wide, to rows without gaps; as it is where there is no such
/// norm. `out` may be `x`.
void normalise(const LayerTools& tools, const Norm& norm, std::int64_t tokens, std::int64_t width,
               const float* x, std::int64_t x_stride, float* out);

/// x [tokens, hidden] += residual_factor norm(given).
void add_to_residual(const LayerTools& tools, const model::VectorRef& post_norm,
                     std::int64_t tokens, const float* given, float* x);

inline std::uint64_t float_bytes(std::int64_t rows, std::int64_t width) {
  return sizeof(float) * static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(width);
}

}  // namespace vindex::commands
