// Owns by how much an architecture multiplies the rows of its embedding before the first layer.
#pragma once

#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <string>

namespace vindex::model {

struct EmbeddingScale {
  double factor = 1.0;
  /// "granite: embedding_multiplier", "gemma2: sqrt(hidden size)"; empty where it multiplies by
  /// nothing.
  std::string source = {};
};

/// The factor of the model whose embedding has `hidden` columns. What config.json
/// (embedding_multiplier, scale_emb, embedding_multiplier_scale, embedding_scale, scale_embedding)
/// or the GGUF key embedding_scale says goes before what an architecture does without saying so.
/// Sources: transformers' modelling files; llama.cpp's src/models/*.cpp and their defaults.
EmbeddingScale embedding_scale(const shard::ModelFiles& files, std::int64_t hidden);

}  // namespace vindex::model
