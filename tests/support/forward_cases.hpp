// Owns the cases that every back end of forward passes is held to, against their definitions in
// float64 (forward_reference.hpp): all encodings both ways round, products and attention of many
// shapes.
#pragma once

#include "forward_reference.hpp"

#include "backend/forward_backend.hpp"
#include "core/integers.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/encoding_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace vindex::testing {

/// Of a sum's rounding, in units of the norms' product.
inline constexpr double kProductRounding = 2e-6;

/// Bytes that decode to weights of an ordinary size, where their type lets that be arranged.
inline void fill_sample(std::span<std::uint8_t> bytes, decode::ElementType type,
                        std::mt19937& random) {
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  const auto set = [&](std::size_t size, auto encode) {
    for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
      const auto value = encode(std::uniform_real_distribution<float>(-1.0F, 1.0F)(random));
      std::memcpy(bytes.data() + i, &value, size);
    }
  };
  switch (type) {
    case decode::ElementType::kF64:
      return set(8, [](float x) { return static_cast<double>(x); });
    case decode::ElementType::kF32:
      return set(4, [](float x) { return x; });
    case decode::ElementType::kF16:
      return set(2, [](float x) { return decode::encode_f16(x); });
    case decode::ElementType::kBF16:
      return set(2, [](float x) { return decode::encode_bf16(x); });
    default:
      return;
  }
}

/// A weight that comes slab by slab, and forgets the last one.
class StreamedWeight final : public MatrixInput {
 public:
  StreamedWeight(const decode::EncodedMatrix& matrix, bool transposed)
      : matrix_(matrix), transposed_(transposed) {}
  const decode::Encoding& encoding() const override { return *matrix_.encoding; }
  std::int64_t rows() const override { return matrix_.rows; }
  std::int64_t cols() const override { return matrix_.cols; }
  bool transposed() const override { return transposed_; }
  std::uint64_t sign_flip_key() const override { return 0; }
  bool in_memory() const override { return false; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return copied(decode::row_slab(matrix_, first, count));
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return copied(decode::column_slab(matrix_, first, count));
  }
  std::size_t largest() const { return largest_; }
  std::size_t read() const { return read_; }

 private:
  decode::EncodedMatrix copied(const decode::EncodedMatrix& view) {
    const decode::CodeWindow window = decode::code_window(view);
    std::fill(bytes_.begin(), bytes_.end(), std::byte{0xFF});
    bytes_.assign(as_size(window.width * window.height), std::byte{0});
    for (std::int64_t i = 0; i < window.height; ++i) {
      std::memcpy(bytes_.data() + i * window.width, view.codes + window.offset + i * window.stride,
                  as_size(window.width));
    }
    largest_ = std::max(largest_, bytes_.size());
    read_ += bytes_.size();
    return decode::with_codes(view, bytes_.data());
  }

  decode::EncodedMatrix matrix_;
  bool transposed_;
  std::vector<std::byte> bytes_;
  std::size_t largest_ = 0, read_ = 0;
};

/// NaN and infinity are expected where they are; sums beyond float32 are not looked at.
inline void expect_near(const std::vector<float>& got, const std::vector<ExactValue>& wanted,
                        double allowed) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<double>(got[i]);
    if (!std::isfinite(wanted[i].size)) {
      EXPECT_FALSE(std::isfinite(value)) << i;
    } else if (wanted[i].size < 1e36) {
      ASSERT_LE(std::abs(value - wanted[i].value), allowed * wanted[i].size)
          << i << ": " << value << ", wanted " << wanted[i].value;
    }
  }
}

/// [tokens, count] of a call whose result is not set.
inline std::vector<float> product_of(ForwardBackend& backend, LinearCall call) {
  std::vector<float> y(as_size(call.tokens * call.count), std::nanf(""));
  call.y = y.data();
  call.y_stride = call.count;
  backend.linear(call, {});
  return y;
}

/// [tokens, heads * value_dim] of a call whose result is not set.
inline std::vector<float> attention_of(ForwardBackend& backend, AttentionCall call) {
  std::vector<float> out(as_size(call.tokens * call.heads * call.value_dim), std::nanf(""));
  call.out = out.data();
  backend.attention(call, {});
  return out;
}

/// Every encoding, in memory and streamed, stored both ways, with and without a step.
inline void expect_products_of_every_encoding(ForwardBackend& backend) {
  std::mt19937 random(5);
  const auto fill = [&](std::span<std::uint8_t> bytes, decode::CompanionRole,
                        decode::ElementType type) { fill_sample(bytes, type, random); };
  for (const decode::FormatRow& row : decode::format_rows()) {
    for (const decode::SampleShape& shape : decode::shapes_of(row, 37, 70, 16)) {
      const decode::EncodedSample sample(shape, 1, fill);
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(shape.encoding.label + (transposed ? " transposed" : ""));
        const auto weight = make_memory_input(sample.matrix(), transposed);
        const std::int64_t rows = transposed ? shape.cols : shape.rows;
        const std::int64_t cols = transposed ? shape.rows : shape.cols;
        for (const std::int64_t tokens : {1, 3, 21}) {
          for (const std::int64_t step : {1, 2}) {
            const std::vector<float> x = random_floats(tokens * cols, random);
            const LinearCall call{.x = x.data(),
                                  .tokens = tokens,
                                  .x_stride = cols,
                                  .weight = weight.get(),
                                  .first = step - 1,
                                  .step = step,
                                  .count = (rows - step + 1 + step - 1) / step};
            const std::vector<ExactValue> wanted = exact_linear(call);
            expect_near(product_of(backend, call), wanted, kProductRounding);
            StreamedWeight streamed(sample.matrix(), transposed);
            LinearCall other = call;
            other.weight = &streamed;
            expect_near(product_of(backend, other), wanted, kProductRounding);
          }
        }
      }
    }
  }
}

/// Calls `visit` with products of many shapes, and what they should give.
inline void visit_products(
    const std::function<void(const LinearCall&, const std::vector<ExactValue>&)>& visit) {
  struct Shape {
    std::int64_t tokens, rows, cols, first, step, count;
  };
  std::vector<Shape> shapes = {
      {1, 1, 1, 0, 1, 1},       {1, 5000, 300, 7, 1, 4800}, {9, 3000, 130, 1, 2, 1500},
      {70, 40, 9000, 0, 1, 40}, {1100, 20, 50, 3, 5, 3},    {600, 200, 33, 0, 1, 200},
      {2100, 17, 64, 16, 1, 1}, {17, 700, 2500, 0, 1, 700}, {130, 5000, 60, 0, 5000, 1},
      {8, 300, 5000, 1, 3, 99}, {33, 4500, 40, 0, 1, 4500}};
  std::mt19937 random(3);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random()) % bound;
  };
  for (int i = 0; i < 20; ++i) {
    Shape shape{1 + below(90), 1 + below(400), 1 + below(900), 0, 1 + below(3), 0};
    shape.first = below(shape.rows);
    shape.count = 1 + below((shape.rows - shape.first - 1) / shape.step + 1);
    shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(::testing::Message()
                   << shape.tokens << " tokens, " << shape.rows << " x " << shape.cols << ", "
                   << shape.count << " from " << shape.first << " by " << shape.step
                   << (transposed ? ", transposed" : ""));
      const std::vector<float> values = random_floats(shape.rows * shape.cols, random);
      const auto view = decode::float32_view(values.data(), transposed ? shape.cols : shape.rows,
                                             transposed ? shape.rows : shape.cols);
      const auto weight = make_memory_input(view, transposed);
      const std::int64_t stride = shape.cols + 3;
      const std::vector<float> x = random_floats(shape.tokens * stride, random);
      const std::vector<float> bias = random_floats(shape.count, random);
      const LinearCall call{.x = x.data(),
                            .tokens = shape.tokens,
                            .x_stride = stride,
                            .weight = weight.get(),
                            .first = shape.first,
                            .step = shape.step,
                            .count = shape.count,
                            .bias = shape.tokens % 2 == 0 ? bias.data() : nullptr};
      visit(call, exact_linear(call));
    }
  }
}

inline void expect_nothing_between_rows(ForwardBackend& backend) {
  std::mt19937 random(6);
  const std::vector<float> values = random_floats(40 * 30, random);
  const auto weight = make_memory_input(decode::float32_view(values.data(), 40, 30));
  for (const std::int64_t tokens : {2, 50}) {
    const std::vector<float> x = random_floats(tokens * 30, random);
    std::vector<float> y(as_size(tokens * 45), 7.0F);
    backend.linear({.x = x.data(),
                    .tokens = tokens,
                    .x_stride = 30,
                    .weight = weight.get(),
                    .count = 40,
                    .y = y.data(),
                    .y_stride = 45},
                   {});
    for (std::int64_t i = 0; i < tokens * 45; ++i) {
      EXPECT_EQ(y[as_size(i)] == 7.0F, i % 45 >= 40) << i;
    }
  }
}

inline void expect_bounded_slabs(ForwardBackend& backend) {
  std::mt19937 random(8);
  constexpr std::int64_t kRows = 3000;
  constexpr std::int64_t kCols = 4000;
  const std::vector<float> values = random_floats(kRows * kCols, random);
  for (const bool transposed : {false, true}) {
    const auto view = decode::float32_view(values.data(), kRows, kCols);
    const auto weight = make_memory_input(view, transposed);
    StreamedWeight streamed(view, transposed);
    const std::int64_t cols = transposed ? kRows : kCols;
    const std::vector<float> x = random_floats(2 * cols, random);
    LinearCall call{.x = x.data(),
                    .tokens = 2,
                    .x_stride = cols,
                    .weight = weight.get(),
                    .count = transposed ? kCols : kRows};
    const std::vector<ExactValue> wanted = exact_linear(call);
    call.weight = &streamed;
    expect_near(product_of(backend, call), wanted, kProductRounding);
    EXPECT_GT(streamed.largest(), 0U);
    EXPECT_LT(streamed.largest(), values.size() * sizeof(float));
    EXPECT_LE(streamed.largest(), backend.linear_bytes(kRows, kCols));
  }
}

/// A weight that is not finite reaches the outputs that it is part of, and no other.
inline void expect_spoiled_outputs_alone(ForwardBackend& backend) {
  std::mt19937 random(9);
  std::vector<float> values = random_floats(20 * 64, random);
  values[3 * 64 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto weight = make_memory_input(decode::float32_view(values.data(), 20, 64));
  for (const std::int64_t tokens : {1, 40}) {
    const std::vector<float> x = random_floats(tokens * 64, random);
    const std::vector<float> y = product_of(
        backend,
        {.x = x.data(), .tokens = tokens, .x_stride = 64, .weight = weight.get(), .count = 20});
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i % 20 == 3) << i;
    }
  }
}

/// Calls `visit` with attentions of many shapes, what they should give, and how far off a value may
/// be, in units of the largest that it is made of.
inline void visit_attentions(
    const std::function<void(const AttentionCall&, const std::vector<ExactValue>&, double)>&
        visit) {
  struct Shape {
    std::int64_t tokens, heads, kv_heads, head_dim, value_dim;
    std::int64_t window = 0;
    double soft_cap = 0.0;
    bool sinks = false;
    float size = 1.0F;  ///< of queries and keys
  };
  std::vector<Shape> shapes = {
      {1, 1, 1, 1, 1},
      {1, 4, 2, 8, 8, 0, 0.0, true},
      {700, 2, 1, 16, 16},
      {1100, 1, 1, 8, 8, 600},
      {1300, 1, 1, 4, 4, 1},
      {130, 20, 1, 8, 12},
      {65, 24, 2, 24, 8, 0, 30.0},
      {300, 9, 3, 12, 12, 5, 0.0, true},
      {70, 4, 2, 192, 128},
      {66, 2, 1, 256, 256, 40},
      {40, 2, 2, 576, 512},
      {200, 2, 2, 16, 16, 0, 0.0, true, 1e4F},
      {200, 2, 2, 16, 16, 0, 0.0, false, 1e17F},
      {520, 1, 1, 16, 16, 0, 50.0, false, 1e4F},
  };
  std::mt19937 random(12);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random()) % bound;
  };
  for (int i = 0; i < 20; ++i) {
    Shape shape{1 + below(300), 0, 1 + below(3), 1 + below(20), 1 + below(20)};
    shape.heads = shape.kv_heads * (1 + below(11));
    shape.window = below(2) * (1 + below(200));
    shape.soft_cap = below(3) == 0 ? 5.0 : 0.0;
    shape.sinks = below(2) == 0;
    shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(::testing::Message()
                 << shape.tokens << " tokens, " << shape.heads << "/" << shape.kv_heads
                 << " heads of " << shape.head_dim << "/" << shape.value_dim << ", window "
                 << shape.window << ", cap " << shape.soft_cap << ", size " << shape.size);
    const auto q = random_floats(shape.tokens * shape.heads * shape.head_dim, random, shape.size);
    const auto k =
        random_floats(shape.tokens * shape.kv_heads * shape.head_dim, random, shape.size);
    const auto v = random_floats(shape.tokens * shape.kv_heads * shape.value_dim, random);
    const auto sinks = random_floats(shape.heads, random, 3.0F);
    const AttentionCall call{.q = q.data(),
                             .k = k.data(),
                             .v = v.data(),
                             .tokens = shape.tokens,
                             .heads = shape.heads,
                             .kv_heads = shape.kv_heads,
                             .head_dim = shape.head_dim,
                             .value_dim = shape.value_dim,
                             .scale = 1.0 / std::sqrt(static_cast<double>(shape.head_dim)),
                             .soft_cap = shape.soft_cap,
                             .window = shape.window,
                             .sinks = shape.sinks ? sinks.data() : nullptr};
    // Scores are rounded in proportion to their size, and a difference of d in a score changes a
    // share by a part of d. With huge ones the largest takes all, whatever the others.
    const double of_scores = shape.size > 1e9F ? 1.0 : static_cast<double>(shape.size * shape.size);
    const double allowed = 1e-5 * (shape.soft_cap > 0.0 ? shape.soft_cap : of_scores);
    visit(call, exact_attention(call), std::min(allowed, 1.0));
  }
}

}  // namespace vindex::testing
