// What a layer does with prompts against loops over single tokens in float64, written from the
// definitions: attention of every form, feed-forwards, routers, logits, and the memory it says.
#include "commands/trace/forward/layer_blocks.hpp"

#include "backend/backend.hpp"
#include "core/integers.hpp"
#include "cpu/forward/cpu_forward.hpp"
#include "tests/support/forward_reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <malloc.h>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <vector>

namespace vindex::commands::layer_blocks_test {

// Rows of a block are all that is made by new[] here: what is there together is counted.
std::atomic<std::int64_t> bytes_there = 0;
std::atomic<std::int64_t> most_bytes_there = 0;

}  // namespace vindex::commands::layer_blocks_test

void* operator new[](std::size_t bytes) {
  using namespace vindex::commands::layer_blocks_test;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  bytes_there += static_cast<std::int64_t>(malloc_usable_size(memory));
  most_bytes_there = std::max<std::int64_t>(most_bytes_there, bytes_there);
  return memory;
}
void operator delete[](void* memory) noexcept {
  if (memory != nullptr) {
    vindex::commands::layer_blocks_test::bytes_there -=
        static_cast<std::int64_t>(malloc_usable_size(memory));
  }
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { operator delete[](memory); }

namespace vindex::commands::layer_blocks_test {
namespace {

using model::Attention;
using model::FeedForward;
using model::Linear;
using model::Transformer;
using model::TransformerLayer;
using model::VectorRef;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

/// Random weights, made as they are asked for.
class Weights final : public StageWeights {
 public:
  explicit Weights(unsigned seed) : random(seed) {}

  MatrixInput& matrix(std::int64_t index) override { return *inputs_[as_size(index)]; }
  std::span<const float> vector(const VectorRef& ref) override {
    if (!ref) {
      return {};
    }
    const std::vector<float>& stored = tensors_[as_size(ref.tensor)];
    taken_.emplace_back();
    for (std::int64_t i = 0; i < ref.count; ++i) {
      taken_.back().push_back(stored[as_size(ref.first + i * ref.step)]);
    }
    return taken_.back();
  }

  /// Decoded, out x in; once.
  const std::vector<float>& logical(std::int64_t index) {
    std::vector<float>& values = logical_[index];
    if (values.empty()) {
      values = testing::logical_weights(matrix(index));
    }
    return values;
  }

  /// A matrix of logical rows x cols, stored either way.
  std::int64_t add_matrix(std::int64_t rows, std::int64_t cols) {
    const bool transposed = random() % 2 == 0;
    values_.push_back(
        testing::random_floats(rows * cols, random, 1.0F / std::sqrt(static_cast<float>(cols))));
    inputs_.push_back(
        make_memory_input(decode::float32_view(values_.back().data(), transposed ? cols : rows,
                                               transposed ? rows : cols),
                          transposed));
    return std::ssize(inputs_) - 1;
  }
  VectorRef add_vector(std::int64_t count, double around = 0.0) {
    const std::int64_t step = 1 + static_cast<std::int64_t>(random() % 2);
    tensors_.push_back(testing::random_floats(1 + count * step, random, 0.3F));
    for (float& value : tensors_.back()) {
      value += static_cast<float>(around);
    }
    return {static_cast<std::int32_t>(tensors_.size() - 1), 1, step, count};
  }
  /// A projection to `rows`, part of a matrix with more rows or every second one of it.
  Linear add_linear(std::int64_t rows, std::int64_t cols, bool has_bias) {
    Linear linear;
    const std::int64_t step = 1 + static_cast<std::int64_t>(random() % 2);
    linear.weight = {add_matrix(rows * step + 3, cols), {2, step, rows}};
    if (has_bias) {
      linear.bias = add_vector(rows);
    }
    return linear;
  }

  /// Gives `attention` matrices per head that say what `kv_b` says.
  void absorb(const Linear& kv_b, bool transposed, Attention& attention) {
    const std::vector<float> w = logical(kv_b.weight.matrix);
    const std::int64_t rank = attention.latent_rank;
    const std::int64_t of_key = attention.head_dim - attention.rope.dims;
    const auto add_part = [&](std::int64_t first, std::int64_t count, bool turned) {
      std::vector<float> part;
      for (std::int64_t i = 0; i < count * rank; ++i) {
        const std::int64_t row = turned ? i % count : i / rank;
        const std::int64_t col = turned ? i / count : i % rank;
        part.push_back(w[as_size(kv_b.weight.rows.row(first + row) * rank + col)]);
      }
      values_.push_back(std::move(part));
      inputs_.push_back(make_memory_input(decode::float32_view(
          values_.back().data(), turned ? rank : count, turned ? count : rank)));
      return std::ssize(inputs_) - 1;
    };
    attention.kv_b = {};
    attention.k_b_heads.clear();
    attention.v_b_heads.clear();
    attention.k_b_transposed = transposed;
    for (std::int64_t h = 0; h < attention.heads; ++h) {
      const std::int64_t first = h * (of_key + attention.value_dim);
      attention.k_b_heads.push_back(add_part(first, of_key, transposed));
      attention.v_b_heads.push_back(add_part(first + of_key, attention.value_dim, false));
    }
  }

  std::mt19937 random;

 private:
  std::deque<std::vector<float>> values_, tensors_, taken_;
  std::vector<std::unique_ptr<MatrixInput>> inputs_;
  std::map<std::int64_t, std::vector<float>> logical_;
};

Row times(Weights& weights, const Linear& linear, const Row& x) {
  const std::vector<float>& w = weights.logical(linear.weight.matrix);
  const std::span<const float> bias = weights.vector(linear.bias);
  Row y;
  for (std::int64_t i = 0; i < linear.weight.rows.count; ++i) {
    double sum = bias.empty() ? 0.0 : static_cast<double>(bias[as_size(i)]);
    const std::size_t row = as_size(linear.weight.rows.row(i)) * x.size();
    for (std::size_t k = 0; k < x.size(); ++k) {
      sum += static_cast<double>(w[row + k]) * x[k];
    }
    y.push_back(sum);
  }
  return y;
}

/// Pieces of the norm's length, each by itself.
void normalise(Weights& weights, const VectorRef& ref, double eps, double offset, Row& x) {
  const std::span<const float> weight = weights.vector(ref);
  for (std::size_t first = 0; !weight.empty() && first < x.size(); first += weight.size()) {
    double mean = 0.0;
    for (std::size_t i = 0; i < weight.size(); ++i) {
      mean += x[first + i] * x[first + i] / static_cast<double>(weight.size());
    }
    for (std::size_t i = 0; i < weight.size(); ++i) {
      x[first + i] *= (offset + static_cast<double>(weight[i])) / std::sqrt(mean + eps);
    }
  }
}

/// Components [first, first + dims) of a head.
void turn(const model::Rope& rope, std::int64_t length, std::int64_t position, double* head) {
  const model::RopeOfLength of = model::rope_of_length(rope, length);
  for (std::int64_t i = 0; i < rope.dims / 2; ++i) {
    double& a = head[rope.interleaved ? 2 * i : i];
    double& b = head[rope.interleaved ? 2 * i + 1 : i + rope.dims / 2];
    const double angle = static_cast<double>(position) * of.frequencies[as_size(i)];
    const double c = std::cos(angle) * of.attention_factor;
    const double s = std::sin(angle) * of.attention_factor;
    const double turned = a * c - b * s;
    b = b * c + a * s;
    a = turned;
  }
}

/// Queries, keys and values of one token, positions not yet in them; keys and values of all heads.
struct TokenHeads {
  Row q, k, v;
};

TokenHeads plain_heads(Weights& weights, const Transformer& model, const Attention& attention,
                       const Row& x) {
  TokenHeads heads{times(weights, attention.q, x), times(weights, attention.k, x),
                   times(weights, attention.v, x)};
  normalise(weights, attention.q_norm, model.norm_eps, model.norm_offset, heads.q);
  normalise(weights, attention.k_norm, model.norm_eps, model.norm_offset, heads.k);
  if (attention.clip > 0.0) {
    for (Row* row : {&heads.q, &heads.k, &heads.v}) {
      for (double& value : *row) {
        value = std::clamp(value, -attention.clip, attention.clip);
      }
    }
  }
  return heads;
}

/// `kv_b`: the latent's matrix, whichever form the model has it in.
TokenHeads latent_heads(Weights& weights, const Transformer& model, const Attention& attention,
                        const Linear& kv_b, const Row& x) {
  TokenHeads heads;
  if (attention.q_a) {
    Row query = times(weights, attention.q_a, x);
    normalise(weights, attention.q_a_norm, attention.latent_eps, model.norm_offset, query);
    heads.q = times(weights, attention.q_b, query);
  } else {
    heads.q = times(weights, attention.q, x);
  }
  const Row both = times(weights, attention.kv_a, x);
  Row latent(both.begin(), both.begin() + attention.latent_rank);
  normalise(weights, attention.kv_a_norm, attention.latent_eps, model.norm_offset, latent);
  const Row made = times(weights, kv_b, latent);
  const std::int64_t of_key = attention.head_dim - attention.rope.dims;
  auto from = made.begin();
  for (std::int64_t h = 0; h < attention.heads; ++h) {
    heads.k.insert(heads.k.end(), from, from + of_key);
    heads.k.insert(heads.k.end(), both.begin() + attention.latent_rank, both.end());
    heads.v.insert(heads.v.end(), from + of_key, from + of_key + attention.value_dim);
    from += of_key + attention.value_dim;
  }
  return heads;
}

using HeadsOfToken = std::function<TokenHeads(const Row& normalised)>;

/// The residual stream of one prompt behind the attention of `layer`.
Rows attended(Weights& weights, const Transformer& model, const TransformerLayer& layer,
              const Rows& x, const HeadsOfToken& heads_of) {
  const Attention& attention = layer.attention;
  const std::int64_t kv_heads = attention.is_latent() ? attention.heads : attention.kv_heads;
  const std::int64_t unturned =
      attention.is_latent() ? attention.head_dim - attention.rope.dims : 0;
  const std::span<const float> sinks = weights.vector(attention.sinks);
  std::vector<TokenHeads> tokens;
  Rows out = x;
  for (std::int64_t t = 0; t < std::ssize(x); ++t) {
    Row normalised = x[as_size(t)];
    normalise(weights, layer.attention_norm, model.norm_eps, model.norm_offset, normalised);
    tokens.push_back(heads_of(normalised));
    for (std::int64_t h = 0; h < attention.heads; ++h) {
      turn(attention.rope, std::ssize(x), t,
           tokens.back().q.data() + h * attention.head_dim + unturned);
    }
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      turn(attention.rope, std::ssize(x), t,
           tokens.back().k.data() + h * attention.head_dim + unturned);
    }
    Row made;
    for (std::int64_t h = 0; h < attention.heads; ++h) {
      const std::int64_t kv = h / (attention.heads / kv_heads);
      double total = sinks.empty() ? 0.0 : std::exp(static_cast<double>(sinks[as_size(h)]));
      Row sum(as_size(attention.value_dim), 0.0);
      for (std::int64_t s = 0; s <= t; ++s) {
        if (attention.window > 0 && t - s >= attention.window) {
          continue;
        }
        double score = 0.0;
        for (std::int64_t d = 0; d < attention.head_dim; ++d) {
          score += tokens[as_size(t)].q[as_size(h * attention.head_dim + d)] *
                   tokens[as_size(s)].k[as_size(kv * attention.head_dim + d)];
        }
        score *= attention.scale;
        if (attention.soft_cap > 0.0) {
          score = attention.soft_cap * std::tanh(score / attention.soft_cap);
        }
        total += std::exp(score);
        for (std::int64_t d = 0; d < attention.value_dim; ++d) {
          sum[as_size(d)] +=
              std::exp(score) * tokens[as_size(s)].v[as_size(kv * attention.value_dim + d)];
        }
      }
      for (const double value : sum) {
        made.push_back(value / total);
      }
    }
    Row given = times(weights, attention.o, made);
    normalise(weights, layer.attention_post_norm, model.norm_eps, model.norm_offset, given);
    for (std::size_t i = 0; i < given.size(); ++i) {
      out[as_size(t)][i] += model.residual_factor * given[i];
    }
  }
  return out;
}

void expect_same(const float* got, const Rows& wanted, double allowed) {
  std::size_t at = 0;
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    for (std::size_t i = 0; i < wanted[t].size(); ++i, ++at) {
      ASSERT_NEAR(static_cast<double>(got[at]), wanted[t][i],
                  allowed * (1.0 + std::abs(wanted[t][i])))
          << "token " << t << ", component " << i;
    }
  }
}

Rows rows_of(const std::vector<float>& values, std::int64_t first, std::int64_t count,
             std::int64_t width) {
  Rows rows;
  for (std::int64_t t = first; t < first + count; ++t) {
    rows.emplace_back(values.begin() + t * width, values.begin() + (t + 1) * width);
  }
  return rows;
}

/// attend() of prompts of several lengths, each against `attended()` by itself.
void expect_attention(Weights& weights, const Transformer& model, const TransformerLayer& layer,
                      const HeadsOfToken& heads_of) {
  const std::vector<std::int64_t> lengths = {5, 1, 23, 12};
  const std::vector<float> x = testing::random_floats(41 * model.hidden, weights.random);
  std::vector<float> got = x;
  const auto backend = cpu::make_cpu_forward(2);
  attend({model, weights, *backend, {}}, layer, lengths, got.data());
  std::int64_t token = 0;
  for (const std::int64_t length : lengths) {
    SCOPED_TRACE(::testing::Message() << "prompt of " << length << " from token " << token);
    expect_same(got.data() + token * model.hidden,
                attended(weights, model, layer, rows_of(x, token, length, model.hidden), heads_of),
                2e-5);
    token += length;
  }
}

class Choices {
 public:
  explicit Choices(std::mt19937& random) : random_(random) {}
  bool yes() { return random_() % 2 == 0; }
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_()) % (most - least + 1);
  }

 private:
  std::mt19937& random_;
};

Transformer random_model(Weights& weights) {
  Choices choose(weights.random);
  Transformer model;
  model.hidden = choose.from(3, 40);
  model.norm_eps = 1e-5;
  model.norm_offset = choose.yes() ? 1.0 : 0.0;
  model.residual_factor = choose.yes() ? 0.22 : 1.0;
  return model;
}

model::Rope random_rope(Weights& weights, std::int64_t dims) {
  Choices choose(weights.random);
  model::Rope rope;
  rope.dims = dims;
  rope.interleaved = choose.yes();
  for (std::int64_t i = 0; i < dims / 2; ++i) {
    rope.frequencies.push_back(
        std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
  }
  rope.attention_factor = choose.yes() ? 1.2 : 1.0;
  rope.long_attention_factor = rope.attention_factor;
  // Two of the prompts are longer.
  rope.original_context = 8;
  switch (choose.from(0, 2)) {
    case 1:
      for (const double frequency : rope.frequencies) {
        rope.long_frequencies.push_back(frequency / 3.0);
      }
      rope.long_attention_factor = 0.8;
      break;
    case 2:
      rope.dynamic_base = dims > 2 ? 100.0 : 0.0;
      rope.dynamic_factor = dims > 2 ? 2.0 : 0.0;
      break;
    default:
      break;
  }
  return rope;
}

void add_norms(Weights& weights, std::int64_t hidden, TransformerLayer& layer) {
  Choices choose(weights.random);
  if (choose.yes()) {
    layer.attention_norm = weights.add_vector(hidden, 1.0);
  }
  if (choose.yes()) {
    layer.attention_post_norm = weights.add_vector(hidden, 1.0);
  }
}

TEST(LayerBlocks, AttentionOfEveryKind) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Weights weights(seed);
    Choices choose(weights.random);
    const Transformer model = random_model(weights);
    TransformerLayer layer;
    add_norms(weights, model.hidden, layer);
    Attention& attention = layer.attention;
    attention.kv_heads = choose.from(1, 3);
    attention.heads = attention.kv_heads * choose.from(1, 3);
    attention.head_dim = 2 * choose.from(1, 6);
    attention.value_dim = choose.from(1, 9);
    attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
    attention.soft_cap = choose.yes() ? 3.0 : 0.0;
    attention.window = choose.yes() ? choose.from(1, 12) : 0;
    attention.clip = choose.yes() ? 1.0 : 0.0;
    attention.rope = random_rope(weights, 2 * choose.from(0, attention.head_dim / 2));
    const auto project = [&](std::int64_t rows) {
      return weights.add_linear(rows, model.hidden, choose.yes());
    };
    attention.q = project(attention.heads * attention.head_dim);
    attention.k = project(attention.kv_heads * attention.head_dim);
    attention.v = project(attention.kv_heads * attention.value_dim);
    attention.o =
        weights.add_linear(model.hidden, attention.heads * attention.value_dim, choose.yes());
    if (choose.yes()) {
      const bool whole = choose.yes();
      attention.q_norm =
          weights.add_vector(attention.head_dim * (whole ? attention.heads : 1), 1.0);
      attention.k_norm =
          weights.add_vector(attention.head_dim * (whole ? attention.kv_heads : 1), 1.0);
    }
    if (choose.yes()) {
      attention.sinks = weights.add_vector(attention.heads);
    }
    expect_attention(weights, model, layer,
                     [&](const Row& x) { return plain_heads(weights, model, attention, x); });
  }
}

TEST(LayerBlocks, LatentAttention) {
  for (unsigned seed = 100; seed < 130; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Weights weights(seed);
    Choices choose(weights.random);
    const Transformer model = random_model(weights);
    TransformerLayer layer;
    add_norms(weights, model.hidden, layer);
    Attention& attention = layer.attention;
    attention.heads = attention.kv_heads = choose.from(1, 5);
    // Wide heads are worked on a few at a time.
    attention.value_dim = choose.yes() ? 1500 : choose.from(1, 9);
    attention.rope = random_rope(weights, 2 * choose.from(1, 4));
    attention.head_dim = attention.rope.dims + choose.from(1, 9);
    attention.scale = 0.4;
    attention.latent_rank = choose.from(2, 12);
    attention.latent_eps = 1e-3;
    if (choose.yes()) {
      const std::int64_t rank = choose.from(2, 9);
      attention.q_a = weights.add_linear(rank, model.hidden, choose.yes());
      attention.q_a_norm = weights.add_vector(rank, 1.0);
      attention.q_b = weights.add_linear(attention.heads * attention.head_dim, rank, choose.yes());
    } else {
      attention.q =
          weights.add_linear(attention.heads * attention.head_dim, model.hidden, choose.yes());
    }
    attention.kv_a =
        weights.add_linear(attention.latent_rank + attention.rope.dims, model.hidden, choose.yes());
    attention.kv_a_norm = weights.add_vector(attention.latent_rank, 1.0);
    attention.o =
        weights.add_linear(model.hidden, attention.heads * attention.value_dim, choose.yes());
    const std::int64_t of_key = attention.head_dim - attention.rope.dims;
    const Linear kv_b = weights.add_linear(attention.heads * (of_key + attention.value_dim),
                                           attention.latent_rank, false);
    attention.kv_b = kv_b;
    const auto heads_of = [&](const Row& x) {
      return latent_heads(weights, model, attention, kv_b, x);
    };
    expect_attention(weights, model, layer, heads_of);
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(transposed ? "absorbed, transposed" : "absorbed");
      weights.absorb(kv_b, transposed, attention);
      expect_attention(weights, model, layer, heads_of);
    }
  }
}

/// attend() takes what attend_bytes() says, and not much less, beside its backend's memory.
void expect_memory(Weights& weights, const Transformer& model, const TransformerLayer& layer) {
  constexpr std::int64_t kTokens = 3000;
  const std::vector<std::int64_t> lengths(kTokens / 20, 20);
  std::vector<float> x = testing::random_floats(kTokens * model.hidden, weights.random);
  const auto backend = cpu::make_cpu_forward(1);
  const std::int64_t before = bytes_there;
  most_bytes_there = before;
  attend({model, weights, *backend, {}}, layer, lengths, x.data());
  const auto taken = static_cast<double>(most_bytes_there - before);
  const auto said = static_cast<double>(attend_bytes(model, layer, kTokens, 20));
  // What malloc() rounds up, and sums of the backend's rows, are beside the point.
  EXPECT_LE(taken, said * 1.001 + 8192.0);
  EXPECT_GE(taken, said * 0.9);
}

TEST(LayerBlocks, AttentionTakesTheMemoryThatItSays) {
  Weights weights(400);
  Transformer model;
  model.hidden = 24;
  TransformerLayer plain;
  Attention& attention = plain.attention;
  attention.heads = 6;
  attention.kv_heads = 2;
  attention.head_dim = 8;
  attention.value_dim = 8;
  attention.rope = random_rope(weights, 8);
  attention.q = weights.add_linear(48, 24, false);
  attention.k = weights.add_linear(16, 24, false);
  attention.v = weights.add_linear(16, 24, false);
  attention.o = weights.add_linear(24, 48, false);
  plain.attention_post_norm = weights.add_vector(24, 1.0);
  expect_memory(weights, model, plain);

  TransformerLayer latent;
  latent.attention.heads = latent.attention.kv_heads = 40;
  latent.attention.head_dim = 12;
  latent.attention.rope = random_rope(weights, 4);
  latent.attention.latent_rank = 10;
  latent.attention.q_a = weights.add_linear(14, 24, false);
  latent.attention.q_a_norm = weights.add_vector(14, 1.0);
  latent.attention.q_b = weights.add_linear(40 * 12, 14, false);
  latent.attention.kv_a = weights.add_linear(14, 24, false);
  latent.attention.kv_a_norm = weights.add_vector(10, 1.0);
  for (const std::int64_t value_dim : {5, 300}) {
    SCOPED_TRACE(value_dim);
    latent.attention.value_dim = value_dim;
    latent.attention.kv_b = weights.add_linear(40 * (8 + value_dim), 10, false);
    latent.attention.o = weights.add_linear(24, 40 * value_dim, false);
    expect_memory(weights, model, latent);
  }
}

double gated(Gating law, double limit, double gate, double up) {
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  switch (law) {
    case Gating::kSilu:
      return gate * sigmoid(gate) * up;
    case Gating::kGeluTanh:
      return 0.5 * gate *
             (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    case Gating::kGelu:
      return 0.5 * gate * (1.0 + std::erf(gate / std::sqrt(2.0))) * up;
    case Gating::kClamped: {
      const double low = std::min(gate, limit);
      return low * sigmoid(1.702 * low) * (std::clamp(up, -limit, limit) + 1.0);
    }
  }
  return 0.0;
}

TEST(LayerBlocks, FeedForwards) {
  for (unsigned seed = 200; seed < 240; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Weights weights(seed);
    Choices choose(weights.random);
    Transformer model = random_model(weights);
    model.gating = static_cast<Gating>(choose.from(0, 3));
    model.gating_limit = 0.7;
    TransformerLayer layer;
    if (choose.yes()) {
      layer.ffn_norm = weights.add_vector(model.hidden, 1.0);
    }
    if (choose.yes()) {
      layer.ffn_post_norm = weights.add_vector(model.hidden, 1.0);
    }
    FeedForward ffn;
    ffn.neurons = choose.from(1, 50);
    ffn.gate = weights.add_linear(ffn.neurons, model.hidden, choose.yes());
    ffn.up = weights.add_linear(ffn.neurons, model.hidden, choose.yes());
    ffn.down = weights.add_linear(model.hidden, ffn.neurons, choose.yes());
    const std::int64_t tokens = choose.from(1, 20);
    std::vector<float> x = testing::random_floats(tokens * model.hidden, weights.random, 2.0F);

    Rows wanted_neurons;
    Rows wanted = rows_of(x, 0, tokens, model.hidden);
    for (Row& row : wanted) {
      Row normalised = row;
      normalise(weights, layer.ffn_norm, model.norm_eps, model.norm_offset, normalised);
      const Row gate = times(weights, ffn.gate, normalised);
      const Row up = times(weights, ffn.up, normalised);
      wanted_neurons.emplace_back();
      for (std::size_t i = 0; i < gate.size(); ++i) {
        wanted_neurons.back().push_back(gated(model.gating, model.gating_limit, gate[i], up[i]));
      }
      Row given = times(weights, ffn.down, wanted_neurons.back());
      normalise(weights, layer.ffn_post_norm, model.norm_eps, model.norm_offset, given);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] += model.residual_factor * given[i];
      }
    }

    const auto backend = cpu::make_cpu_forward(1);
    const LayerTools tools{model, weights, *backend, {}};
    std::vector<float> normalised(x.size());
    std::vector<float> neurons(as_size(tokens * ffn.neurons));
    std::vector<float> out(x.size());
    normalise_for_ffn(tools, layer, tokens, x.data(), normalised.data());
    feed_forward(tools, ffn, tokens, normalised.data(), neurons.data(), out.data());
    add_ffn(tools, layer, tokens, out.data(), x.data());
    expect_same(neurons.data(), wanted_neurons, 1e-5);
    expect_same(x.data(), wanted, 3e-5);
  }
}

TEST(LayerBlocks, RoutersAndLogits) {
  for (unsigned seed = 300; seed < 320; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Weights weights(seed);
    Choices choose(weights.random);
    Transformer model = random_model(weights);
    const std::int64_t experts = choose.from(1, 30);
    model::Mixture mixture;
    mixture.router = weights.add_linear(experts, model.hidden, choose.yes());
    model.vocabulary = choose.from(5, 60);
    const Linear output = weights.add_linear(model.vocabulary, model.hidden, choose.yes());
    model.output = output.weight;
    model.output_bias = output.bias;
    model.final_norm = weights.add_vector(model.hidden, 1.0);
    model.logit_factor = choose.yes() ? 0.25 : 1.0;
    model.logit_soft_cap = choose.yes() ? 2.0 : 0.0;
    const std::int64_t tokens = choose.from(1, 20);
    const std::vector<float> x = testing::random_floats(tokens * model.hidden, weights.random);
    const std::int64_t first = choose.from(0, model.vocabulary - 1);
    const std::int64_t count = choose.from(1, model.vocabulary - first);

    Rows wanted_logits;
    Rows wanted;
    for (const Row& row : rows_of(x, 0, tokens, model.hidden)) {
      Row normalised = row;
      normalise(weights, model.final_norm, model.norm_eps, model.norm_offset, normalised);
      wanted_logits.push_back(times(weights, mixture.router, normalised));
      const Row all = times(weights, output, normalised);
      wanted.emplace_back(all.begin() + first, all.begin() + first + count);
      for (double& logit : wanted.back()) {
        logit *= model.logit_factor;
        if (model.logit_soft_cap > 0.0) {
          logit = model.logit_soft_cap * std::tanh(logit / model.logit_soft_cap);
        }
      }
    }

    const auto backend = cpu::make_cpu_forward(1);
    const LayerTools tools{model, weights, *backend, {}};
    std::vector<float> normalised(x.size());
    normalise_for_output(tools, tokens, x.data(), normalised.data());
    std::vector<float> routed(as_size(tokens * experts));
    router_logits(tools, mixture, tokens, normalised.data(), routed.data());
    expect_same(routed.data(), wanted_logits, 1e-5);
    std::vector<float> logits(as_size(tokens * count));
    output_logits(tools, tokens, normalised.data(), first, count, logits.data());
    expect_same(logits.data(), wanted, 1e-5);
  }
}

}  // namespace
}  // namespace vindex::commands::layer_blocks_test
