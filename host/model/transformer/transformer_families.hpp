// Owns the table of families that a forward pass can follow: what each computes by itself, beside
// what its keys and tensors say. Sources: transformers' modelling and configuration files (5.23) by
// model_type; llama.cpp's src/models by general.architecture; docs/models/trace-families.md.
#pragma once

#include "architecture/gating.hpp"
#include "model/families/tensor_name.hpp"

#include <cstdint>
#include <string_view>

namespace vindex::model {

/// Where norms stand around attention and feed-forward.
enum class LayerNorms : std::uint8_t {
  kBefore,         ///< of the input of each
  kAround,         ///< of the input and of the output of each (gemma2)
  kAfterPrevious,  ///< of the output of each (olmo2)
};

/// Norms of queries and keys.
enum class HeadNorms : std::uint8_t { kNone, kEachHead, kAllHeads };

/// Which layers see a window of what came before them, where the model has a window.
enum class WindowRule : std::uint8_t {
  kNone,
  kEvery,      ///< all
  kTyped,      ///< what layer_types says, all where nothing does
  kAlternate,  ///< layer_types, else layers 0, 2, 4, ...
  kSixths,     ///< layer_types, else all but every sixth (sliding_window_pattern)
  kAbove,      ///< layer_types, else those from max_window_layers on
  kEvenBelow,  ///< layer_types, else the even ones below max_window_layers
};

/// What scores of attention are multiplied by.
enum class ScoreScale : std::uint8_t {
  kRoot,         ///< 1 / sqrt(components of a head)
  kQueryScalar,  ///< query_pre_attn_scalar, to the power -1/2
  kMultiplier,   ///< attention_multiplier
};

struct TransformerFamily {
  /// model_type or general.architecture, '_' for '-'; in the table several, with spaces between.
  std::string_view names;
  LayerNorms norms = LayerNorms::kBefore;
  HeadNorms head_norms = HeadNorms::kNone;
  Gating gating = Gating::kSilu;  ///< where no key says another
  WindowRule windows = WindowRule::kNone;
  std::int64_t window = 0;     ///< where no key says one; 0: none
  bool window_switch = false;  ///< only where use_sliding_window is true
  ScoreScale scale = ScoreScale::kRoot;
  bool interleaved = false;    ///< pairs of the rotation: transformer.hpp, Rope
  bool latent = false;         ///< attention is latent (MLA)
  bool sinks = false;          ///< heads have sinks
  bool biased = false;         ///< q, k and v have biases
  bool shared_gate = false;    ///< the shared expert has a gate
  bool partial_rope = false;   ///< partial_rotary_factor is read
  bool growing = false;        ///< queries grow with the position
  bool turn_key = false;       ///< rope_interleave is read
  bool clip_key = false;       ///< clip_qkv is read
  std::int64_t heads = 0;      ///< of attention where no key says how many; 0: one must
  double norm_offset = 0.0;    ///< transformer.hpp
  double norm_eps = 1e-6;      ///< where config.json says none
  double rope_base = 10'000;   ///< where no key says one
  double local_base = 0.0;     ///< of layers with a window, in place of the other; 0: the same
  double attention_cap = 0.0;  ///< soft cap of scores where no key says one; 0: none
  double logit_cap = 0.0;
  bool attention_cap_key = false;  ///< the soft cap of scores is read
  bool logit_cap_key = false;
  std::int64_t extra_layers = 0;  ///< next-token-prediction layers where no key says how many
  /// Layers of the size whose GGUF files scale scores by heads of hidden / heads components; 0:
  /// none.
  std::int64_t wide_head_layers = 0;
  std::string_view ffn_norm = {};  ///< name of that norm where it is not the usual one
};

/// The family called `architecture`, or null.
const TransformerFamily* transformer_family(Dialect dialect, std::string_view architecture);

}  // namespace vindex::model
