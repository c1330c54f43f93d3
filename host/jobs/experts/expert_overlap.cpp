// Owns stacks of bases and their overlaps, block of experts by block.
#include "expert_overlap.hpp"

#include <vindex/decode/encoding.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>

namespace vindex::jobs {

namespace {

/// Vectors on a side of one product, about.
constexpr std::int64_t kBlockVectors = 512;

std::int64_t block_experts(std::int64_t vectors) {
  return std::max<std::int64_t>(1, kBlockVectors / std::max<std::int64_t>(vectors, 1));
}

measure::InnerProductShape block_shape(std::int64_t experts, std::int64_t vectors,
                                       std::int64_t length, std::int32_t threads) {
  const std::int64_t side = std::min(experts, block_experts(vectors)) * vectors;
  return {.left = side, .right = side, .cols = length, .threads = threads};
}

/// Every vector of experts [first, first + count) as a matrix of one row.
std::vector<decode::EncodedMatrix> rows_of(const SubspaceStack& stack, std::int64_t first,
                                           std::int64_t count) {
  std::vector<decode::EncodedMatrix> rows(static_cast<std::size_t>(count * stack.vectors));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t vector = first * stack.vectors + static_cast<std::int64_t>(i);
    if (!stack.known[static_cast<std::size_t>(vector / stack.vectors)]) {
      continue;  // stays without an encoding: zeros
    }
    rows[i] = decode::float32_view(stack.values.data() + vector * stack.length, 1, stack.length);
  }
  return rows;
}

/// |block|_F^2 of rows [row, row + size) x columns [col, col + size).
double squares_of(const std::vector<double>& products, std::int64_t stride, std::int64_t row,
                  std::int64_t col, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = row; i < row + size; ++i) {
    for (std::int64_t j = col; j < col + size; ++j) {
      const double product = products[static_cast<std::size_t>(i * stride + j)];
      sum += product * product;
    }
  }
  return sum;
}

}  // namespace

SubspaceStack::SubspaceStack(std::int64_t expert_count, std::int64_t vector_count,
                             std::int64_t vector_length)
    : experts(expert_count),
      vectors(vector_count),
      length(vector_length),
      values(static_cast<std::size_t>(experts * vectors * length)),
      known(static_cast<std::size_t>(experts), false) {}

void SubspaceStack::keep(std::int64_t expert, const std::vector<float>& rows) {
  const std::int64_t count = vectors * length;
  std::copy_n(rows.begin(), count, values.begin() + static_cast<std::ptrdiff_t>(expert * count));
  known[static_cast<std::size_t>(expert)] = true;
}

std::vector<float> subspace_overlaps(measure::Backend& backend, const SubspaceStack& stack,
                                     std::int32_t threads, const std::stop_token& stop) {
  const std::int64_t step = block_experts(stack.vectors);
  const std::int64_t experts = stack.experts;
  std::vector<float> out(static_cast<std::size_t>(experts * experts),
                         std::numeric_limits<float>::quiet_NaN());
  std::vector<double> products;
  for (std::int64_t a = 0; a < experts; a += step) {
    const std::int64_t count_a = std::min(step, experts - a);
    const auto left = rows_of(stack, a, count_a);
    for (std::int64_t b = 0; b <= a; b += step) {
      const std::int64_t count_b = std::min(step, experts - b);
      const auto right = rows_of(stack, b, count_b);
      const auto sums = backend.inner_products({.left = count_a * stack.vectors,
                                                .right = count_b * stack.vectors,
                                                .cols = stack.length,
                                                .threads = threads,
                                                .stop = stop});
      sums->add({.matrices = left}, {.matrices = right});
      products.resize(left.size() * right.size());
      sums->read(products);
      for (std::int64_t i = a; i < a + count_a; ++i) {
        for (std::int64_t j = b; j < std::min(b + count_b, i + 1); ++j) {
          if (!stack.known[static_cast<std::size_t>(i)] ||
              !stack.known[static_cast<std::size_t>(j)]) {
            continue;
          }
          const double shared =
              squares_of(products, count_b * stack.vectors, (i - a) * stack.vectors,
                         (j - b) * stack.vectors, stack.vectors) /
              static_cast<double>(stack.vectors);
          const auto value = i == j ? 1.0F : static_cast<float>(std::clamp(shared, 0.0, 1.0));
          out[static_cast<std::size_t>(i * experts + j)] = value;
          out[static_cast<std::size_t>(j * experts + i)] = value;
        }
      }
    }
  }
  return out;
}

std::uint64_t subspace_overlap_bytes(const measure::Backend& backend, std::int64_t experts,
                                     std::int64_t vectors, std::int64_t length,
                                     std::int32_t threads) {
  const measure::InnerProductShape shape = block_shape(experts, vectors, length, threads);
  const auto products = static_cast<std::uint64_t>(shape.left * shape.right);
  const auto views = static_cast<std::uint64_t>(shape.left + shape.right);
  return backend.inner_product_memory(shape).host + products * sizeof(double) +
         views * sizeof(decode::EncodedMatrix) +
         static_cast<std::uint64_t>(experts * experts) * sizeof(float);
}

}  // namespace vindex::jobs
