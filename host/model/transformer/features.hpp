// Owns which matrices hold the features of a model: the rows of gate_proj, the gate half of a fused
// gate_up_proj, and the down_proj whose columns they write, by names and shapes only; and of its
// vocabulary, with the factor by which an architecture multiplies rows of its embedding before the
// first layer.
#pragma once
#include "input/model_files.hpp"
#include "model/model_index.hpp"
#include "model/selection/selection.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

/// Which half of a gated feed-forward is meant.
enum class FeatureRole : std::uint8_t { kGate, kUp };

/// Logical rows first, first + step, ... of a matrix: its features number 0 to count - 1.
struct FeatureRows {
  std::int64_t first = 0, step = 1, count = 0;
  std::int64_t row(std::int64_t feature) const { return first + feature * step; }
};

struct FeatureMatrix {
  std::int64_t matrix = -1;  ///< index into ModelIndex::matrices
  FeatureRows rows;
  std::int64_t down = -1;  ///< index of the down_proj with a column per feature; -1: there is none
};

/// The matrices that `selection` wants (layers, blocks, tensors), in the index's order: gate_proj
/// (up_proj for kUp) and gate_up_proj of the dense, routed and shared feed-forwards; of a model of
/// an unknown family those called so. The first half of a fused matrix is the gate (transformers'
/// chunk(2), ggml's swiglu), every second row from 0 where the architecture is gpt_oss.
std::vector<FeatureMatrix> feature_matrices(const input::ModelFiles& files, const ModelIndex& index,
                                            const Selection& selection, FeatureRole role);

/// `matrix` less its rows that no feature is in, and where features lie in what is left: a half of
/// a matrix whose rows lie one after the other need not be read. Companions stay whole.
struct SearchedPart {
  MatrixRecord matrix;
  FeatureRows rows;
};
SearchedPart searched_part(const MatrixRecord& matrix, const FeatureRows& rows);

/// Rows [first, first + count) of `matrix` as a matrix of its own; nothing where it cannot be cut
/// so (companions, codes without rows of their own, stored in x out).
std::optional<MatrixRecord> cut_record(const MatrixRecord& matrix, std::int64_t first,
                                       std::int64_t count);

/// Indices of the embedding and of the matrix that makes logits (the embedding where both are one);
/// -1: there is none.
struct VocabularyMatrices {
  std::int64_t input = -1, output = -1;
  bool tied = false;  ///< output is the embedding
};
VocabularyMatrices vocabulary_matrices(const input::ModelFiles& files, const ModelIndex& index);

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
EmbeddingScale embedding_scale(const input::ModelFiles& files, std::int64_t hidden);

}  // namespace vindex::model
