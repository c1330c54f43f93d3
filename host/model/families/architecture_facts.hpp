// Owns what a configuration CLAIMS of a model beyond its matrices: how long a context it was made
// for, how positions are coded, how heads share keys. Nothing here decides what is computed.
#pragma once

#include "core/json/json_document.hpp"
#include "input/model_files.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::model {

/// A number that may differ from layer to layer.
struct LayerNumber {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// What is absent is not claimed.
struct ArchitectureFacts {
  std::optional<std::int64_t> context_length = {};
  std::optional<double> rope_base = {};
  std::string rope_scaling = {};                         ///< "yarn", "linear", "llama3", ...; empty
  std::optional<double> rope_factor = {};                ///< of the scaling
  std::optional<std::int64_t> rope_original = {};        ///< context before the scaling
  std::optional<LayerNumber> heads = {}, kv_heads = {};  ///< of queries; of keys and values
  std::optional<std::int64_t> head_dim = {};
  /// Multi-head latent attention: ranks of its factors.
  std::optional<std::int64_t> kv_lora_rank = {}, q_lora_rank = {};
  std::optional<std::int64_t> rope_head_dim = {};

  bool is_mla() const { return kv_lora_rank.has_value(); }
};

ArchitectureFacts architecture_facts(const input::ModelFiles& files);

/// {"context_length", "rope": {"base", "scaling", "factor", "original_context"}, "heads",
/// "kv_heads", "head_dim", "mla": {"kv_lora_rank", "q_lora_rank", "rope_head_dim"} or null}; a
/// number that differs between layers is {"least", "most"}; null: not claimed.
Json architecture_json(const ArchitectureFacts& facts);

/// "yarn x32 of 4096", "base 10000"; "-" where nothing is claimed.
std::string rope_text(const ArchitectureFacts& facts);
/// "8", "4 to 8", "MLA 512"; "-" where nothing is claimed.
std::string kv_text(const ArchitectureFacts& facts);

}  // namespace vindex::model
