#include "layer_blocks.hpp"

#include "core/integers.hpp"
#include "measure/forward_steps.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <memory>

namespace vindex::jobs {

namespace {

/// Rows of latent attention's projections that are worked on at a time, about: enough for a product
/// to be worth its call, few enough that queries, keys and values of all heads need not be there
/// together.
constexpr std::int64_t kLatentRows = 4096;

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

std::span<float> span_of(float* values, std::int64_t count) { return {values, as_size(count)}; }
std::span<const float> span_of(const float* values, std::int64_t count) {
  return {values, as_size(count)};
}

/// Rows [first, first + count) of a projection.
struct LinearPart {
  const model::Linear& linear;
  std::int64_t first = 0, count = 0;
};
LinearPart all_of(const model::Linear& linear) { return {linear, 0, linear.weight.rows.count}; }

struct Strided {
  float* values = nullptr;
  std::int64_t stride = 0;
};

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

/// A norm with the epsilon that it has.
struct Norm {
  const model::VectorRef& weight;
  double eps = 0.0;
};

/// Every row of `x` by itself; as it is where there is no such norm.
void normalise(const LayerTools& tools, const Norm& norm, std::int64_t tokens, std::int64_t width,
               const float* x, std::int64_t x_stride, float* out) {
  const std::span<const float> weight = tools.weights.vector(norm.weight);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::span<const float> row = span_of(x + t * x_stride, width);
    const std::span<float> into = span_of(out + t * width, width);
    if (weight.empty()) {
      std::copy(row.begin(), row.end(), into.begin());
    } else {
      measure::rms_norm(row, weight, norm.eps, tools.model.norm_offset, into);
    }
  }
}

/// Queries or keys, in place: each head by itself or all as one, as the norm's length says.
void normalise_heads(const LayerTools& tools, const model::VectorRef& norm, std::int64_t tokens,
                     BlockRows& heads) {
  const std::span<const float> weight = tools.weights.vector(norm);
  if (weight.empty()) {
    return;
  }
  const std::int64_t length = std::ssize(weight);
  expects(heads.width() % length == 0, "a norm of a head or of all");
  for (std::int64_t i = 0; i < tokens * (heads.width() / length); ++i) {
    const std::span<float> some = span_of(heads.data() + i * length, length);
    measure::rms_norm(some, weight, tools.model.norm_eps, tools.model.norm_offset, some);
  }
}

/// Within +-clip, in place, where attention clips.
void clip_values(const model::Attention& attention, std::int64_t tokens, BlockRows& rows) {
  if (attention.clip > 0.0) {
    const auto limit = static_cast<float>(attention.clip);
    for (float& value : span_of(rows.data(), tokens * rows.width())) {
      value = std::clamp(value, -limit, limit);
    }
  }
}

/// x += residual_factor norm(given), `given` spent.
void add_to_residual(const LayerTools& tools, const model::VectorRef& post_norm,
                     std::int64_t tokens, const float* given, float* x) {
  const std::int64_t width = tools.model.hidden;
  const auto factor = static_cast<float>(tools.model.residual_factor);
  const std::span<const float> weight = tools.weights.vector(post_norm);
  BlockRows normalised(weight.empty() ? 0 : 1, width);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* row = given + t * width;
    if (!weight.empty()) {
      measure::rms_norm(span_of(row, width), weight, tools.model.norm_eps, tools.model.norm_offset,
                        span_of(normalised.data(), width));
      row = normalised.data();
    }
    float* const into = x + t * width;
    for (std::int64_t i = 0; i < width; ++i) {
      into[i] += factor * row[i];
    }
  }
}

/// The rotations of prompts, each of its own length (dynamic NTK, longrope); made again only where
/// lengths differ in them.
class Rotations {
 public:
  Rotations(const model::Rope& rope, std::span<const std::int64_t> lengths) : rope_(rope) {
    for (const std::int64_t length : lengths) {
      longest_ = std::max(longest_, length);
    }
  }
  const measure::RotationTable& of_length(std::int64_t length) {
    model::RopeOfLength wanted = model::rope_of_length(rope_, length);
    if (made_ == false || wanted.frequencies != current_.frequencies ||
        wanted.attention_factor != current_.attention_factor) {
      current_ = std::move(wanted);
      table_ = measure::rotation_table(current_.frequencies, longest_, current_.attention_factor);
      made_ = true;
    }
    return table_;
  }

 private:
  const model::Rope& rope_;
  std::int64_t longest_ = 0;
  bool made_ = false;
  model::RopeOfLength current_;
  measure::RotationTable table_;
};

/// Components of a row that turn: `count` heads, `step` floats from one to the next, from `first`.
struct Turned {
  float* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t first = 0, count = 0, step = 0;
};

void turn_heads(const model::Rope& rope, Rotations& rotations,
                std::span<const std::int64_t> lengths, const Turned& heads) {
  if (rope.dims == 0) {
    return;
  }
  float* row = heads.values + heads.first;
  for (const std::int64_t length : lengths) {
    const measure::RotationTable& table = rotations.of_length(length);
    for (std::int64_t position = 0; position < length; ++position, row += heads.stride) {
      for (std::int64_t head = 0; head < heads.count; ++head) {
        measure::rotate(table, position, rope.interleaved, row + head * heads.step);
      }
    }
  }
}

/// Queries, keys and values of whole prompts, and what attention makes of them. Heads of one row
/// lie one behind the other.
struct Heads {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;
  std::int64_t count = 0, kv_count = 0;
  const float* sinks = nullptr;
};

void attend_prompts(const LayerTools& tools, const model::Attention& attention,
                    std::span<const std::int64_t> lengths, const Heads& heads) {
  std::int64_t token = 0;
  for (const std::int64_t length : lengths) {
    tools.backend.attention({.q = heads.q + token * heads.count * attention.head_dim,
                             .k = heads.k + token * heads.kv_count * attention.head_dim,
                             .v = heads.v + token * heads.kv_count * attention.value_dim,
                             .out = heads.out + token * heads.count * attention.value_dim,
                             .tokens = length,
                             .heads = heads.count,
                             .kv_heads = heads.kv_count,
                             .head_dim = attention.head_dim,
                             .value_dim = attention.value_dim,
                             .scale = attention.scale,
                             .soft_cap = attention.soft_cap,
                             .window = attention.window,
                             .sinks = heads.sinks},
                            tools.stop);
    token += length;
  }
}

const float* sinks_of(const LayerTools& tools, const model::Attention& attention) {
  const std::span<const float> sinks = tools.weights.vector(attention.sinks);
  expects(sinks.empty() || std::ssize(sinks) == attention.heads, "a sink for each head");
  return sinks.empty() ? nullptr : sinks.data();
}

/// One block of tokens on its way through an attention: normalised [tokens, hidden] in, heads
/// [tokens, heads * value_dim] out.
struct BlockOfPrompts {
  std::span<const std::int64_t> lengths;
  std::int64_t tokens = 0;
  BlockRows& normalised;
  BlockRows& out;
};

void attend_plainly(const LayerTools& tools, const model::Attention& attention,
                    const BlockOfPrompts& block) {
  BlockRows q(block.tokens, attention.heads * attention.head_dim);
  BlockRows k(block.tokens, attention.kv_heads * attention.head_dim);
  BlockRows v(block.tokens, attention.kv_heads * attention.value_dim);
  const auto into = [&](const model::Linear& linear, BlockRows& rows) {
    project(tools, all_of(linear), block.tokens, block.normalised.data(), tools.model.hidden,
            {rows.data(), rows.width()});
  };
  into(attention.q, q);
  into(attention.k, k);
  into(attention.v, v);
  normalise_heads(tools, attention.q_norm, block.tokens, q);
  normalise_heads(tools, attention.k_norm, block.tokens, k);
  for (BlockRows* rows : {&q, &k, &v}) {
    clip_values(attention, block.tokens, *rows);
  }
  Rotations rotations(attention.rope, block.lengths);
  turn_heads(attention.rope, rotations, block.lengths,
             {q.data(), q.width(), 0, attention.heads, attention.head_dim});
  turn_heads(attention.rope, rotations, block.lengths,
             {k.data(), k.width(), 0, attention.kv_heads, attention.head_dim});
  attend_prompts(tools, attention, block.lengths,
                 {.q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .out = block.out.data(),
                  .count = attention.heads,
                  .kv_count = attention.kv_heads,
                  .sinks = sinks_of(tools, attention)});
}

/// A matrix the other way round.
class Transposed final : public measure::MatrixInput {
 public:
  explicit Transposed(measure::MatrixInput& matrix) : matrix_(matrix) {}
  const decode::Encoding& encoding() const override { return matrix_.encoding(); }
  std::int64_t rows() const override { return matrix_.rows(); }
  std::int64_t cols() const override { return matrix_.cols(); }
  bool transposed() const override { return !matrix_.transposed(); }
  std::uint64_t sign_flip_key() const override { return matrix_.sign_flip_key(); }
  bool in_memory() const override { return matrix_.in_memory(); }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return matrix_.row_slab(first, count);
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return matrix_.column_slab(first, count);
  }

 private:
  measure::MatrixInput& matrix_;
};

/// Heads [first, first + count) of a latent attention.
struct HeadRange {
  std::int64_t first = 0, count = 0;
};

std::int64_t latent_heads_at_once(const model::Attention& attention) {
  const std::int64_t rows = attention.head_dim + attention.value_dim;
  return std::clamp<std::int64_t>(kLatentRows / rows, 1, attention.heads);
}

/// Components of a key that come of the latent, those without a position.
std::int64_t unturned(const model::Attention& attention) {
  return attention.head_dim - attention.rope.dims;
}

/// Keys without what turns [tokens, count * head_dim] and values, by matrices of each head.
void expand_heads(const LayerTools& tools, const model::Attention& attention,
                  const HeadRange& heads, std::int64_t tokens, const BlockRows& latent,
                  BlockRows& k, BlockRows& v) {
  const auto multiply = [&](measure::MatrixInput& matrix, std::int64_t count, const Strided& out) {
    tools.backend.linear({.x = latent.data(),
                          .tokens = tokens,
                          .x_stride = latent.width(),
                          .weight = &matrix,
                          .count = count,
                          .y = out.values,
                          .y_stride = out.stride},
                         tools.stop);
  };
  for (std::int64_t i = 0; i < heads.count; ++i) {
    measure::MatrixInput& key = tools.weights.matrix(attention.k_b_heads[as_size(heads.first + i)]);
    const Strided keys{k.data() + i * attention.head_dim, k.width()};
    if (attention.k_b_transposed) {
      Transposed turned(key);
      multiply(turned, unturned(attention), keys);
    } else {
      multiply(key, unturned(attention), keys);
    }
    multiply(tools.weights.matrix(attention.v_b_heads[as_size(heads.first + i)]),
             attention.value_dim, {v.data() + i * attention.value_dim, v.width()});
  }
}

/// The same by kv_b, whose rows are a head's key and behind it its value.
void expand_together(const LayerTools& tools, const model::Attention& attention,
                     const HeadRange& heads, std::int64_t tokens, const BlockRows& latent,
                     BlockRows& k, BlockRows& v) {
  const std::int64_t of_key = unturned(attention);
  const std::int64_t of_head = of_key + attention.value_dim;
  BlockRows both(tokens, heads.count * of_head);
  project(tools, {attention.kv_b, heads.first * of_head, heads.count * of_head}, tokens,
          latent.data(), latent.width(), {both.data(), both.width()});
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t i = 0; i < heads.count; ++i) {
      const float* const from = both.row(t) + i * of_head;
      std::copy_n(from, of_key, k.row(t) + i * attention.head_dim);
      std::copy_n(from + of_key, attention.value_dim, v.row(t) + i * attention.value_dim);
    }
  }
}

/// Where queries of a latent attention come from: the normalised rows, or q_a's, normalised.
struct QuerySource {
  const model::Linear& linear;
  const float* x = nullptr;
  std::int64_t stride = 0;
};

/// What all heads of a latent attention share.
struct Latent {
  BlockRows latent;      ///< [tokens, latent_rank], normalised
  BlockRows turned_key;  ///< [tokens, rope.dims], turned
};

void attend_heads(const LayerTools& tools, const model::Attention& attention,
                  const BlockOfPrompts& block, const QuerySource& query, const Latent& shared,
                  const HeadRange& heads, Rotations& rotations) {
  const std::int64_t of_key = unturned(attention);
  BlockRows q(block.tokens, heads.count * attention.head_dim);
  BlockRows k(block.tokens, heads.count * attention.head_dim);
  BlockRows v(block.tokens, heads.count * attention.value_dim);
  project(tools, {query.linear, heads.first * attention.head_dim, heads.count * attention.head_dim},
          block.tokens, query.x, query.stride, {q.data(), q.width()});
  turn_heads(attention.rope, rotations, block.lengths,
             {q.data(), q.width(), of_key, heads.count, attention.head_dim});
  if (attention.k_b_heads.empty()) {
    expand_together(tools, attention, heads, block.tokens, shared.latent, k, v);
  } else {
    expand_heads(tools, attention, heads, block.tokens, shared.latent, k, v);
  }
  const std::int64_t dims = shared.turned_key.width();
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    for (std::int64_t i = 0; i < heads.count; ++i) {
      std::copy_n(shared.turned_key.data() + t * dims, dims,
                  k.row(t) + i * attention.head_dim + of_key);
    }
  }
  BlockRows out(block.tokens, heads.count * attention.value_dim);
  const float* const sinks = sinks_of(tools, attention);
  attend_prompts(tools, attention, block.lengths,
                 {.q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .out = out.data(),
                  .count = heads.count,
                  .kv_count = heads.count,
                  .sinks = sinks == nullptr ? nullptr : sinks + heads.first});
  for (std::int64_t t = 0; t < block.tokens; ++t) {
    std::copy_n(out.row(t), out.width(), block.out.row(t) + heads.first * attention.value_dim);
  }
}

/// Keys and values are made of the latent for every head (DeepSeek-AI 2024, section 2.1): the
/// absorbed order of the products saves a cache, and there is none here.
void attend_latently(const LayerTools& tools, const model::Attention& attention,
                     const BlockOfPrompts& block) {
  const std::int64_t rank = attention.latent_rank;
  const std::int64_t dims = attention.rope.dims;
  Latent shared{BlockRows(block.tokens, rank), BlockRows(block.tokens, dims)};
  Rotations rotations(attention.rope, block.lengths);
  {
    BlockRows both(block.tokens, rank + dims);
    project(tools, all_of(attention.kv_a), block.tokens, block.normalised.data(),
            tools.model.hidden, {both.data(), both.width()});
    normalise(tools, {attention.kv_a_norm, attention.latent_eps}, block.tokens, rank, both.data(),
              both.width(), shared.latent.data());
    for (std::int64_t t = 0; t < block.tokens; ++t) {
      std::copy_n(both.row(t) + rank, dims, shared.turned_key.row(t));
    }
    turn_heads(attention.rope, rotations, block.lengths,
               {shared.turned_key.data(), dims, 0, 1, dims});
  }
  const std::int64_t query_rank = attention.q_a ? attention.q_a.weight.rows.count : 0;
  BlockRows query(attention.q_a ? block.tokens : 0, query_rank);
  if (attention.q_a) {
    project(tools, all_of(attention.q_a), block.tokens, block.normalised.data(), tools.model.hidden,
            {query.data(), query_rank});
    normalise(tools, {attention.q_a_norm, attention.latent_eps}, block.tokens, query_rank,
              query.data(), query_rank, query.data());
  }
  const QuerySource source =
      attention.q_a ? QuerySource{attention.q_b, query.data(), query_rank}
                    : QuerySource{attention.q, block.normalised.data(), tools.model.hidden};
  const std::int64_t step = latent_heads_at_once(attention);
  for (std::int64_t first = 0; first < attention.heads; first += step) {
    attend_heads(tools, attention, block, source, shared,
                 {first, std::min(step, attention.heads - first)}, rotations);
  }
}

/// Floats per token that attend() holds at a time.
std::int64_t attend_width(const model::Transformer& model, const model::Attention& attention) {
  const std::int64_t kept = model.hidden + attention.heads * attention.value_dim;
  if (!attention.is_latent()) {
    return kept + attention.heads * attention.head_dim +
           attention.kv_heads * (attention.head_dim + attention.value_dim);
  }
  // Where keys and values are made together, that is before there is room for their outputs.
  const std::int64_t of_head =
      2 * attention.head_dim + attention.value_dim +
      std::max(attention.value_dim, unturned(attention) + attention.value_dim);
  return kept + 2 * (attention.latent_rank + attention.rope.dims) +
         (attention.q_a ? attention.q_a.weight.rows.count : 0) +
         latent_heads_at_once(attention) * of_head;
}

std::uint64_t float_bytes(std::int64_t rows, std::int64_t width) {
  return sizeof(float) * static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(width);
}

}  // namespace

void attend(const LayerTools& tools, const model::TransformerLayer& layer,
            std::span<const std::int64_t> prompt_lengths, float* x) {
  const model::Attention& attention = layer.attention;
  const std::int64_t hidden = tools.model.hidden;
  std::int64_t tokens = 0;
  for (const std::int64_t length : prompt_lengths) {
    tokens += length;
  }
  BlockRows normalised(tokens, hidden);
  normalise(tools, {layer.attention_norm, tools.model.norm_eps}, tokens, hidden, x, hidden,
            normalised.data());
  BlockRows out(tokens, attention.heads * attention.value_dim);
  const BlockOfPrompts block{prompt_lengths, tokens, normalised, out};
  if (attention.is_latent()) {
    attend_latently(tools, attention, block);
  } else {
    attend_plainly(tools, attention, block);
  }
  // The normalised rows have served: what the layer adds takes their place.
  project(tools, all_of(attention.o), tokens, out.data(), out.width(), {normalised.data(), hidden});
  add_to_residual(tools, layer.attention_post_norm, tokens, normalised.data(), x);
}

std::uint64_t attend_bytes(const model::Transformer& model, const model::TransformerLayer& layer,
                           std::int64_t tokens, std::int64_t longest) {
  // A table of rotations: a cosine and a sine for each pair of components.
  return float_bytes(tokens, attend_width(model, layer.attention)) +
         float_bytes(longest, layer.attention.rope.dims) + float_bytes(1, model.hidden);
}

void normalise_for_ffn(const LayerTools& tools, const model::TransformerLayer& layer,
                       std::int64_t tokens, const float* x, float* out) {
  normalise(tools, {layer.ffn_norm, tools.model.norm_eps}, tokens, tools.model.hidden, x,
            tools.model.hidden, out);
}

void router_logits(const LayerTools& tools, const model::Mixture& mixture, std::int64_t tokens,
                   const float* normalised, float* logits) {
  const LinearPart router = all_of(mixture.router);
  project(tools, router, tokens, normalised, tools.model.hidden, {logits, router.count});
}

void feed_forward(const LayerTools& tools, const model::FeedForward& ffn, std::int64_t tokens,
                  const float* normalised, float* neurons, float* out) {
  const std::int64_t hidden = tools.model.hidden;
  BlockRows up(tokens, ffn.neurons);
  project(tools, all_of(ffn.gate), tokens, normalised, hidden, {neurons, ffn.neurons});
  project(tools, all_of(ffn.up), tokens, normalised, hidden, {up.data(), ffn.neurons});
  const std::span<float> gated = span_of(neurons, tokens * ffn.neurons);
  measure::gate_neurons(tools.model.gating, tools.model.gating_limit, gated,
                        span_of(up.data(), tokens * ffn.neurons), gated);
  project(tools, all_of(ffn.down), tokens, neurons, ffn.neurons, {out, hidden});
}

std::uint64_t feed_forward_bytes(const model::FeedForward& ffn, std::int64_t tokens) {
  return float_bytes(tokens, ffn.neurons);
}

void add_ffn(const LayerTools& tools, const model::TransformerLayer& layer, std::int64_t tokens,
             const float* given, float* x) {
  add_to_residual(tools, layer.ffn_post_norm, tokens, given, x);
}

void normalise_for_output(const LayerTools& tools, std::int64_t tokens, const float* x,
                          float* out) {
  normalise(tools, {tools.model.final_norm, tools.model.norm_eps}, tokens, tools.model.hidden, x,
            tools.model.hidden, out);
}

void output_logits(const LayerTools& tools, std::int64_t tokens, const float* normalised,
                   std::int64_t first, std::int64_t count, float* logits) {
  const model::Linear output{tools.model.output, tools.model.output_bias};
  project(tools, {output, first, count}, tokens, normalised, tools.model.hidden, {logits, count});
  const auto factor = static_cast<float>(tools.model.logit_factor);
  if (factor != 1.0F) {
    for (std::int64_t i = 0; i < tokens * count; ++i) {
      logits[i] *= factor;
    }
  }
  if (tools.model.logit_soft_cap > 0.0) {
    measure::soft_cap(tools.model.logit_soft_cap, span_of(logits, tokens * count));
  }
}

}  // namespace vindex::jobs
