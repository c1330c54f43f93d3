// Owns the calls of the back end and of forward_steps.hpp behind a projection, a norm and the sum
// into the residual stream.
#include "block_steps.hpp"

#include "forward_steps.hpp"

#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::commands {

void project(const LayerTools& tools, const LinearPart& part, std::int64_t tokens, const float* x,
             std::int64_t x_stride, const Strided& out) {
  const model::FeatureRows& rows = part.linear.weight.rows;
  expects(static_cast<bool>(part.linear) && part.first + part.count <= rows.count,
          "a projection that is there");
  const std::span<const float> bias = tools.weights.vector(part.linear.bias);
  expects(bias.empty() || std::ssize(bias) == rows.count, "a bias of the projection's length");
  tools.backend.linear({.x = x,
                        .tokens = tokens,
                        .x_stride = x_stride,
                        .weight = &tools.weights.matrix(part.linear.weight.matrix),
                        .first = rows.row(part.first),
                        .step = rows.step,
                        .count = part.count,
                        .bias = bias.empty() ? nullptr : bias.data() + part.first,
                        .y = out.values,
                        .y_stride = out.stride},
                       tools.stop);
}

void normalise(const LayerTools& tools, const Norm& norm, std::int64_t tokens, std::int64_t width,
               const float* x, std::int64_t x_stride, float* out) {
  const std::span<const float> weight = tools.weights.vector(norm.weight);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::span<const float> row = span_of(x + t * x_stride, width);
    const std::span<float> into = span_of(out + t * width, width);
    if (weight.empty()) {
      std::copy(row.begin(), row.end(), into.begin());
    } else {
      rms_norm(row, weight, norm.eps, tools.model.norm_offset, into);
    }
  }
}

void add_to_residual(const LayerTools& tools, const model::VectorRef& post_norm,
                     std::int64_t tokens, const float* given, float* x) {
  const std::int64_t width = tools.model.hidden;
  const auto factor = static_cast<float>(tools.model.residual_factor);
  const std::span<const float> weight = tools.weights.vector(post_norm);
  BlockRows normalised(weight.empty() ? 0 : 1, width);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* row = given + t * width;
    if (!weight.empty()) {
      rms_norm(span_of(row, width), weight, tools.model.norm_eps, tools.model.norm_offset,
               span_of(normalised.data(), width));
      row = normalised.data();
    }
    float* const into = x + t * width;
    for (std::int64_t i = 0; i < width; ++i) {
      into[i] += factor * row[i];
    }
  }
}

}  // namespace vindex::commands
