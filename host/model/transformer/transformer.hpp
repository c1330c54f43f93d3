// Owns what the layers of a model compute, as values: shapes, constants, and which stored tensors
// each step takes. Read from a model by read_transformer(), by a table of families
// (transformer_families.cpp); applied by jobs/trace. Nothing is computed here, and no weight is
// read. Sources of the rules: transformers' modelling files by model_type; llama.cpp's src/models
// by general.architecture: docs/commands/trace.md.
#pragma once

#include "features.hpp"

#include "architecture/gating.hpp"
#include "architecture/router_rule.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "model/schemes/stored_vector.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

/// Rows of a matrix that a step multiplies by: a whole projection, a part of a fused one, one half
/// of interleaved rows. Logical rows (out), whatever the storage.
struct WeightRows {
  std::int64_t matrix = -1;  ///< index into ModelIndex::matrices; -1: there is none
  FeatureRows rows;
  explicit operator bool() const { return matrix >= 0; }
};

/// A projection with the bias that is added, where it has one.
struct Linear {
  WeightRows weight;
  VectorRef bias;
  explicit operator bool() const { return static_cast<bool>(weight); }
};

/// How positions turn queries and keys.
struct Rope {
  std::int64_t dims = 0;     ///< components of a head that turn; 0: none
  bool interleaved = false;  ///< pairs (2i, 2i + 1), as ggml's NORM and DeepSeek; else (i, i + n/2)
  /// Of pair i, radians a position: of a sequence within the original context, and (longrope,
  /// dynamic NTK) of a longer one, where that differs; dims / 2 of them, rounded as transformers
  /// rounds.
  std::vector<double> frequencies;
  /// longrope: frequencies of sequences longer than original_context; empty: the same.
  std::vector<double> long_frequencies;
  std::int64_t original_context = 0;
  /// dynamic NTK: base and factor from which frequencies of a longer sequence follow; 0: not used.
  double dynamic_base = 0.0, dynamic_factor = 0.0;
  double attention_factor = 1.0;       ///< cosines and sines are multiplied by it (YaRN, longrope)
  double long_attention_factor = 1.0;  ///< the same of a sequence beyond original_context
};

/// Frequencies and factor of a sequence of `length` tokens. Pure.
struct RopeOfLength {
  std::vector<double> frequencies;
  double attention_factor = 1.0;
};
RopeOfLength rope_of_length(const Rope& rope, std::int64_t length);

/// Attention of a layer, latent (MLA) or not. A head's query and key have `head_dim` components,
/// the rope.dims LAST of them turned where latent, the FIRST of them else.
struct Attention {
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t head_dim = 0, value_dim = 0;
  double scale = 1.0;       ///< of scores
  double soft_cap = 0.0;    ///< cap * tanh(score / cap); 0: none
  std::int64_t window = 0;  ///< a token sees itself and window - 1 before it; 0: all before it
  Rope rope;
  VectorRef sinks;  ///< per head, joins the softmax and takes its share away (gpt-oss)

  Linear q, k, v, o;  ///< rows of head h: [h * head_dim, ...); o takes heads * value_dim
  /// Norms of queries and keys before they turn: of head_dim (each head by itself), or of the whole
  /// heads * head_dim (olmoe), as their counts say.
  VectorRef q_norm, k_norm;
  /// Queries, keys and values are kept within +-clip, behind these norms and before they turn; 0:
  /// they are not (olmoe).
  double clip = 0.0;
  /// The query at position p is multiplied by 1 + growth ln(1 + floor(p / growth_context)); 0: it
  /// is not (ministral3).
  double growth = 0.0;
  std::int64_t growth_context = 1;

  /// Latent attention: q from q_a, its norm and q_b (or from `q` alone); kv_a gives the latent
  /// (latent_rank) and behind it the key's rope.dims that all heads share; kv_b gives per head
  /// head_dim - rope.dims of the key, then value_dim of the value.
  std::int64_t latent_rank = 0;  ///< 0: not latent
  Linear q_a, q_b, kv_a, kv_b;
  VectorRef q_a_norm, kv_a_norm;
  double latent_eps = 1e-6;  ///< of these two norms, which need not be norm_eps
  /// Absorbed form (GGUF since 2025), in the place of kv_b: matrices per head, k_b_heads[h]
  /// latent_rank x (head_dim - rope.dims) as `k_b_transposed` says or its transpose, v_b_heads[h]
  /// value_dim x latent_rank.
  std::vector<std::int64_t> k_b_heads, v_b_heads;
  /// k_b_heads[h] has rows = latent_rank (its transpose is that part of kv_b).
  bool k_b_transposed = false;

  bool is_latent() const { return latent_rank > 0; }
};

/// A gated feed-forward: dense, a shared expert, or one routed expert.
struct FeedForward {
  Linear gate, up, down;
  std::int64_t neurons = 0;
};

struct Mixture {
  Linear router;             ///< its bias is part of the logits (gpt-oss)
  VectorRef selection_bias;  ///< added to scores that choose alone
  RouterRule rule;           ///< biased only with selection_bias
  std::vector<FeedForward> experts;
  std::optional<FeedForward> shared;
  /// `hidden` values g: the shared expert's output times sigmoid(g . input) (qwen2_moe); GGUF
  /// stores them as a vector, which is no matrix of the index.
  VectorRef shared_gate;
};

/// Norms that are not there change nothing (olmo2 has those behind its blocks alone).
struct TransformerLayer {
  std::int32_t number = 0;
  VectorRef attention_norm;       ///< before attention
  VectorRef attention_post_norm;  ///< of its output before the residual (gemma 2, 3)
  VectorRef ffn_norm;             ///< before the feed-forward
  VectorRef ffn_post_norm;        ///< of its output before the residual
  Attention attention;
  std::optional<FeedForward> dense;
  std::optional<Mixture> mixture;  ///< exactly one of both is there
};

/// A decoder that a forward pass can follow.
struct Transformer {
  std::string family;  ///< model_type or general.architecture whose rule it is
  std::int64_t hidden = 0, vocabulary = 0, context = 0;  ///< context 0: not claimed
  double norm_eps = 1e-6;
  double norm_offset = 0.0;  ///< norms multiply by offset + weight (gemma of Hugging Face: 1)
  Gating gating = Gating::kSilu;
  double gating_limit = 0.0;      ///< L of kClamped
  double embedding_factor = 1.0;  ///< embedding_scale()
  double residual_factor = 1.0;   ///< of what is added to the residual stream (granite)
  double logit_factor = 1.0;      ///< logits are multiplied by it
  double logit_soft_cap = 0.0;    ///< 0: none
  std::int64_t embedding = -1;    ///< index into ModelIndex::matrices
  WeightRows output;              ///< makes logits; the embedding where both are tied
  VectorRef output_bias;
  VectorRef final_norm;
  std::vector<TransformerLayer> layers;  ///< number 0 first, none missing
  std::vector<Warning> warnings;         ///< trace_key_warnings()
};

/// The decoder in `files` (next-token-prediction layers behind the last one left out). Shapes are
/// checked against each other and against the keys: what does not fit is refused, not guessed.
/// Errors: ConfigurationError (78) E-TRACE-FAMILY for a family that is not in the table, naming it
/// and those that are; E-TRACE-KEY for a key that must be there, has a value of another type or
/// holds what is not known (an activation, a rope type); FormatError (65) E-TRACE-TENSOR for a
/// tensor that is missing, has another shape, or a matrix that cannot be decoded, naming it.
Transformer read_transformer(const input::ModelFiles& files, const ModelIndex& index);

/// Model types that read_transformer() knows, for messages and docs, in order.
std::vector<std::string> traced_families(bool gguf);

}  // namespace vindex::model
