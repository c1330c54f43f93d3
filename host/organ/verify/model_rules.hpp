// Owns the tables of what llama.cpp wants of a model: types of keys, tensors of a block.
// Source: llama.cpp src/llama-arch.cpp, src/llama-model.cpp (load_hparams, load_tensors),
// gguf-py/gguf/constants.py.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vindex::organ {

/// What a key must be, identified by its name behind the architecture ("attention.head_count") or
/// whole.
struct KeyRule {
  std::string_view name;
  std::string_view types;  ///< "u32"; "u32|arr" where a value per layer may stand instead
};
/// The rule of a key of `architecture`, or null.
const KeyRule* key_rule(std::string_view key, std::string_view architecture);

/// Whether an array under this name (behind the architecture) has one element per block.
bool is_per_layer(std::string_view name);

/// Tensors of an architecture; names of a block are without "blk.N.". One of several is enough
/// where they stand together: "attn_qkv.weight|attn_q.weight".
struct ArchitectureRule {
  std::string_view name;
  std::span<const std::string_view> global;
  std::span<const std::string_view> block;     ///< in every block
  std::span<const std::string_view> dense;     ///< in a block without a router
  std::span<const std::string_view> experts;   ///< in a block with one
  std::span<const std::string_view> optional;  ///< may be there besides, in blocks or outside
};
const ArchitectureRule* architecture_rule(std::string_view architecture);

}  // namespace vindex::organ
