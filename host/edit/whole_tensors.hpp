// Owns what an adapter holds beside factors, and which of it the model holds already.
#pragma once

#include <vindex/edit/patch.hpp>

#include <string>
#include <vector>

namespace vindex::edit {

/// A tensor of an adapter that is no factor of a pair.
struct WholeTensor {
  std::string name;
  const model::MatrixRecord* held = nullptr;  ///< in the adapter
  /// The matrix of the model, of the same sides, that it may be a copy of; null: none.
  const model::MatrixRecord* wanted = nullptr;
};

/// Those of an adapter, by its headers: PEFT saves the weight of an embedding beside its factors
/// (NAME.base_layer.weight), and of a model that ties its output to the embedding both.
std::vector<WholeTensor> whole_tensors(const shard::ModelFiles& files,
                                       const model::ModelIndex& index, const PatchBase* base);

/// Whether `tensor`, which has a matrix of the model, holds its very numbers. Memory: two slabs.
/// Errors: those of reading.
bool is_copy(const shard::ModelFiles& files, const WholeTensor& tensor, const PatchBase& base);

}  // namespace vindex::edit
