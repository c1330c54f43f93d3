// Owns what plain and latent attention have in common: positions that turn heads, and the attention
// of each prompt by itself. Private to layer_blocks.hpp's sources.
#pragma once

#include "block_steps.hpp"
#include "forward_steps.hpp"

#include <cstdint>
#include <span>

namespace vindex::commands {

/// The rotations of prompts, each of its own length (dynamic NTK, longrope); made again only where
/// lengths differ in them.
class Rotations {
 public:
  Rotations(const model::Rope& rope, std::span<const std::int64_t> lengths) : rope_(rope) {
    for (const std::int64_t length : lengths) {
      longest_ = std::max(longest_, length);
    }
  }
  const RotationTable& of_length(std::int64_t length) {
    model::RopeOfLength wanted = model::rope_of_length(rope_, length);
    if (!made_ || wanted.frequencies != current_.frequencies ||
        wanted.attention_factor != current_.attention_factor) {
      current_ = std::move(wanted);
      table_ = rotation_table(current_.frequencies, longest_, current_.attention_factor);
      made_ = true;
    }
    return table_;
  }

 private:
  const model::Rope& rope_;
  std::int64_t longest_ = 0;
  bool made_ = false;
  model::RopeOfLength current_;
  RotationTable table_;
};

/// Components of a row that turn: `count` heads, `step` floats from one to the next, from `first`.
struct Turned {
  float* values = nullptr;
  std::int64_t stride = 0;
  std::int64_t first = 0, count = 0, step = 0;
};

/// Does nothing where no component turns.
void turn_heads(const model::Rope& rope, Rotations& rotations,
                std::span<const std::int64_t> lengths, const Turned& heads);

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

/// Every prompt by itself.
void attend_prompts(const LayerTools& tools, const model::Attention& attention,
                    std::span<const std::int64_t> lengths, const Heads& heads);

/// One per head, or null.
const float* sinks_of(const LayerTools& tools, const model::Attention& attention);

/// One block of tokens on its way through an attention: normalised [tokens, hidden] in, heads
/// [tokens, heads * value_dim] out.
struct BlockOfPrompts {
  std::span<const std::int64_t> lengths;
  std::int64_t tokens = 0;
  BlockRows& normalised;
  BlockRows& out;
};

void attend_latently(const LayerTools& tools, const model::Attention& attention,
                     const BlockOfPrompts& block);
/// Floats per token that attend_latently() holds at a time, beside `block`.
std::int64_t latent_width(const model::Attention& attention);

}  // namespace vindex::commands
