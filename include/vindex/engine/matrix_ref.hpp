// Owns naming one matrix among those of several opened models.
#pragma once

#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::engine {

/// A matrix of one of the models that a job reads.
struct MatrixRef {
  std::int32_t model = 0;   ///< which of the models
  std::int64_t matrix = 0;  ///< index into its ModelIndex::matrices
  bool operator==(const MatrixRef&) const = default;
};

/// An opened model, owned by someone else.
struct ModelView {
  const shard::ModelFiles* files = nullptr;
  const model::ModelIndex* index = nullptr;
};
using ModelViews = std::vector<ModelView>;

inline const model::MatrixRecord& record_of(const ModelViews& models, const MatrixRef& ref) {
  return models[static_cast<std::size_t>(ref.model)]
      .index->matrices[static_cast<std::size_t>(ref.matrix)];
}
inline const shard::ModelFiles& files_of(const ModelViews& models, const MatrixRef& ref) {
  return *models[static_cast<std::size_t>(ref.model)].files;
}

}  // namespace vindex::engine
