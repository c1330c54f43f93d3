// Owns products and attention in float64, by their definition: what back ends of forward passes are
// held against.
#pragma once

#include "backend/forward_backend.hpp"
#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace vindex::testing {

/// A value, and a size that errors may be in proportion to.
struct ExactValue {
  double value = 0.0, size = 0.0;
};

inline std::vector<float> random_floats(std::int64_t count, std::mt19937& random,
                                        float size = 1.0F) {
  std::normal_distribution<float> normal(0.0F, size);
  std::vector<float> out(as_size(count));
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// The logical weights (out x in) of a matrix in memory.
inline std::vector<float> logical_weights(MatrixInput& matrix) {
  const std::int64_t rows = matrix.rows();
  const std::int64_t cols = matrix.cols();
  std::vector<float> stored(as_size(rows * cols));
  decode::decode_matrix(matrix.row_slab(0, rows), stored.data(), cols);
  if (!matrix.transposed()) {
    return stored;
  }
  std::vector<float> out(stored.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out[as_size(c * rows + r)] = stored[as_size(r * cols + c)];
    }
  }
  return out;
}

/// [tokens, count]; size: the norms' product, and the bias.
inline std::vector<ExactValue> exact_linear(const LinearCall& call) {
  const std::vector<float> weights = logical_weights(*call.weight);
  const std::int64_t cols = call.weight->transposed() ? call.weight->rows() : call.weight->cols();
  std::vector<ExactValue> out;
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    for (std::int64_t o = 0; o < call.count; ++o) {
      const float* const x = call.x + t * call.x_stride;
      const float* const w = weights.data() + (call.first + o * call.step) * cols;
      double sum = call.bias == nullptr ? 0.0 : static_cast<double>(call.bias[o]);
      double of_x = 0.0, of_w = 0.0;
      const double start = std::abs(sum);
      for (std::int64_t k = 0; k < cols; ++k) {
        const auto a = static_cast<double>(x[k]);
        const auto b = static_cast<double>(w[k]);
        sum += a * b;
        of_x += a * a;
        of_w += b * b;
      }
      out.push_back({sum, std::sqrt(of_x) * std::sqrt(of_w) + start});
    }
  }
  return out;
}

/// [tokens, heads * value_dim]; size: the largest value seen.
inline std::vector<ExactValue> exact_attention(const AttentionCall& call) {
  std::vector<ExactValue> out(as_size(call.tokens * call.heads * call.value_dim));
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    for (std::int64_t h = 0; h < call.heads; ++h) {
      const std::int64_t kv = h / (call.heads / call.kv_heads);
      std::vector<double> scores;
      const std::int64_t begin =
          call.window > 0 ? std::max<std::int64_t>(0, t + 1 - call.window) : 0;
      double largest = call.sinks == nullptr ? -std::numeric_limits<double>::infinity()
                                             : static_cast<double>(call.sinks[h]);
      for (std::int64_t s = begin; s <= t; ++s) {
        double sum = 0.0;
        for (std::int64_t d = 0; d < call.head_dim; ++d) {
          sum += static_cast<double>(call.q[(t * call.heads + h) * call.head_dim + d]) *
                 static_cast<double>(call.k[(s * call.kv_heads + kv) * call.head_dim + d]);
        }
        sum *= call.scale;
        scores.push_back(call.soft_cap > 0.0 ? call.soft_cap * std::tanh(sum / call.soft_cap)
                                             : sum);
        largest = std::max(largest, scores.back());
      }
      double total =
          call.sinks == nullptr ? 0.0 : std::exp(static_cast<double>(call.sinks[h]) - largest);
      for (double& score : scores) {
        score = std::exp(score - largest);
        total += score;
      }
      for (std::int64_t d = 0; d < call.value_dim; ++d) {
        ExactValue& into = out[as_size((t * call.heads + h) * call.value_dim + d)];
        for (std::int64_t s = begin; s <= t; ++s) {
          const auto value =
              static_cast<double>(call.v[(s * call.kv_heads + kv) * call.value_dim + d]);
          into.value += scores[as_size(s - begin)] / total * value;
          into.size = std::max(into.size, std::abs(value));
        }
      }
    }
  }
  return out;
}

}  // namespace vindex::testing
