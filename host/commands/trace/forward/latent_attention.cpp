// Owns latent attention: queries, keys and values that come of a few components per token. Keys and
// values are made of the latent for every head (DeepSeek-AI 2024, section 2.1): the absorbed order
// of the products saves a cache, and there is none here.
#include "attention_steps.hpp"

#include "backend/derived_input.hpp"

#include <algorithm>

namespace vindex::commands {

namespace {

/// Rows of latent attention's projections that are worked on at a time, about: enough for a product
/// to be worth its call, few enough that queries, keys and values of all heads need not be there
/// together.
constexpr std::int64_t kLatentRows = 4096;

/// A matrix the other way round.
class Transposed final : public ForwardingInput {
 public:
  using ForwardingInput::ForwardingInput;
  bool transposed() const override { return !ForwardingInput::transposed(); }
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
  const auto multiply = [&](MatrixInput& matrix, std::int64_t count, const Strided& out) {
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
    MatrixInput& key = tools.weights.matrix(attention.k_b_heads[as_size(heads.first + i)]);
    const Strided keys{k.data() + i * attention.head_dim, k.width()};
    if (attention.k_b_transposed) {
      Transposed transposed(key);
      multiply(transposed, unturned(attention), keys);
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

}  // namespace

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

std::int64_t latent_width(const model::Attention& attention) {
  // Where keys and values are made together, that is before there is room for their outputs.
  const std::int64_t of_head =
      2 * attention.head_dim + attention.value_dim +
      std::max(attention.value_dim, unturned(attention) + attention.value_dim);
  return 2 * (attention.latent_rank + attention.rope.dims) +
         (attention.q_a ? attention.q_a.weight.rows.count : 0) +
         latent_heads_at_once(attention) * of_head;
}

}  // namespace vindex::commands
