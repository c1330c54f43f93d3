// Owns the tables of what llama.cpp wants of a model: types of keys, tensors of a block.
// Source: llama.cpp src/llama-arch.cpp, src/llama-model.cpp (load_hparams, load_tensors),
// gguf-py/gguf/constants.py.
#pragma once

#include <string_view>

namespace vindex::organ {

/// What a key of `architecture` must be, "u32", or "u32|arr" where a value per layer may stand
/// instead; empty where nothing is known of it.
std::string_view key_types(std::string_view key, std::string_view architecture);

/// Whether an array under this name (behind the architecture) has one element per block.
bool is_per_layer(std::string_view name);

/// Tensors of an architecture, with spaces between; names of a block are without "blk.N.". One of
/// several is enough where they stand together: "attn_qkv.weight|attn_q.weight".
struct ArchitectureRule {
  std::string_view name;
  std::string_view global;
  std::string_view block;     ///< in every block
  std::string_view dense;     ///< in a block without a router
  std::string_view experts;   ///< in a block with one
  std::string_view optional;  ///< may be there besides, in blocks or outside
};
const ArchitectureRule* architecture_rule(std::string_view architecture);

}  // namespace vindex::organ
