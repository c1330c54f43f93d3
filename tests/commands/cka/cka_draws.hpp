// Owns draws of dumps for the calibration of CKA: prompts of drawn lengths, noise whose rows share
// a part with their prompt. Fixed by their keys.
#pragma once

#include "cka_fixture.hpp"

#include "model/dump/dump.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace vindex::commands::testing {

/// Prompts of these lengths, as a dump says them.
inline model::Dump dump_of(const std::vector<std::int64_t>& lengths) {
  model::Dump dump;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    dump.prompts.push_back({static_cast<std::int64_t>(i), dump.tokens, lengths[i]});
    dump.tokens += lengths[i];
  }
  return dump;
}

/// `count` lengths from `least` to `most`, the same ones for a key.
inline std::vector<std::int64_t> drawn_lengths(std::size_t count, std::int64_t least,
                                               std::int64_t most, std::uint64_t key) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < count; ++i) {
    lengths.push_back(least +
                      static_cast<std::int64_t>(philox_block(key, i).word[0]) % (most - least + 1));
  }
  return lengths;
}

/// Standard normal numbers whose rows share half of their variance with their prompt.
class PromptNoise {
 public:
  PromptNoise(const model::Dump& dump, std::uint64_t key) : key_(key) {
    for (const model::PromptRows& prompt : dump.prompts) {
      for (std::int64_t i = 0; i < prompt.count; ++i) {
        prompt_.push_back(static_cast<std::uint64_t>(prompt.prompt));
      }
    }
  }
  std::size_t rows() const { return prompt_.size(); }
  double at(std::size_t row, std::uint64_t column) const {
    return std::sqrt(0.5) *
           (normal(2 * key_, 64 * row + column) + normal(2 * key_ + 1, 64 * prompt_[row] + column));
  }

 private:
  std::uint64_t key_;
  std::vector<std::uint64_t> prompt_;
};

inline Values noise_of(const model::Dump& dump, std::uint64_t key, std::uint64_t columns) {
  const PromptNoise noise(dump, key);
  Values out;
  for (std::size_t row = 0; row < noise.rows(); ++row) {
    for (std::uint64_t j = 0; j < columns; ++j) {
      out.push_back(static_cast<float>(noise.at(row, j)));
    }
  }
  return out;
}

/// Every layer of `a` with every one of `b`, by Gram matrices of rows, on one thread.
inline TileResult row_tile_of(MemoryDump& a, MemoryDump& b, const TileDraws& draws) {
  CkaPlan plan;
  plan.by_rows = true;
  return tile_of(plan, a, b, draws, 1);
}

}  // namespace vindex::commands::testing
