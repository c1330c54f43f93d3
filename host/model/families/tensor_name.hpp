// Owns reading a tensor's name: components, numbers, suffix, and the key under which the table of
// families knows it. Cost is linear in the name; no backtracking anywhere.
//
//   model.layers.7.mlp.experts.12.up_proj.weight  ->  key "{layer}.mlp.experts.#.up_proj", 7, 12
//   blk.7.ffn_up_exps.weight                      ->  key "{layer}.ffn_up_exps", 7
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace vindex::model {

inline constexpr std::size_t kMaxNumbers = 4;

struct TensorName {
  std::string key;           ///< prefix and `.weight`/`.bias` removed, numbers replaced
  std::string_view last;     ///< last component before `.weight`: the role where no table knows it
  std::int32_t layer = -1;   ///< the number after layers, blk, blocks or h
  std::int32_t expert = -1;  ///< the number after experts or expert
  std::array<std::int32_t, kMaxNumbers> numbers{};  ///< all others, the expert's included
  std::size_t number_count = 0;
  bool bias = false;   ///< ends in `.bias`, `_bias` or is a numbered bias of a cell
  bool tower = false;  ///< of a part other than the language model (vision, audio, projector)
};

enum class Dialect : std::uint8_t { kHuggingFace, kGguf };

/// Reads `name` into `out`, whose buffers are reused. `out.last` points into `name`.
void read_tensor_name(std::string_view name, Dialect dialect, TensorName& out);

/// `text` as a number of at most nine digits, or -1.
std::int32_t small_number(std::string_view text);

}  // namespace vindex::model
