// Owns reading the two halves of a layer from keys and tensors.
#pragma once

#include "transformer.hpp"
#include "transformer_keys.hpp"
#include "transformer_rope.hpp"
#include "transformer_tensors.hpp"

#include "model/routers/read_router_rule.hpp"

#include <cstdint>
#include <memory>

namespace vindex::model {

/// Attention of one layer after the other. Errors of all: those of read_transformer().
class AttentionReader {
 public:
  /// All must outlive this. `layers`: of the model.
  AttentionReader(const input::ModelFiles& files, const TransformerKeys& keys,
                  TransformerTensors& tensors, std::int64_t hidden, std::int64_t layers);

  Attention read(std::int32_t layer);

 private:
  void read_plain(std::int32_t layer, Attention& out);
  void read_fused(std::int32_t layer, std::int64_t matrix, Attention& out);
  void read_latent(std::int32_t layer, Attention& out);
  void read_latent_values(std::int32_t layer, std::int64_t key_dim, Attention& out);
  void read_head_norms(std::int32_t layer, Attention& out);
  std::int64_t head_dim_of(std::int64_t rows, const std::string& name) const;
  std::int64_t kv_heads_of(std::int64_t rows, std::int64_t head_dim, const std::string& name) const;
  double plain_scale(std::int64_t head_dim) const;
  Rope rope_of(const RopeSettings& settings, std::int64_t head_dim) const;
  std::string_view named(std::string_view hugging_face, std::string_view gguf) const {
    return keys_.is_gguf() ? gguf : hugging_face;
  }

  const TransformerKeys& keys_;
  TransformerTensors& tensors_;
  std::int64_t hidden_, layers_, heads_;
  LayerWindows windows_;
  RopeSettings rope_, local_rope_;
};

/// Feed-forwards of one layer after the other.
class FeedForwardReader {
 public:
  FeedForwardReader(const input::ModelFiles& files, const TransformerKeys& keys,
                    TransformerTensors& tensors, std::int64_t hidden);

  /// Fills `dense` or `mixture`.
  void read(TransformerLayer& layer);

 private:
  Mixture read_mixture(std::int32_t layer, std::int64_t router);
  void read_selection(std::int32_t layer, Mixture& out);
  void require_rule(std::int32_t layer, const RouterRule& rule, std::int64_t experts) const;

  const input::ModelFiles& files_;
  const TransformerKeys& keys_;
  TransformerTensors& tensors_;
  std::int64_t hidden_;
  std::unique_ptr<const ModelRouters> routers_;  ///< of the first mixture on
};

}  // namespace vindex::model
