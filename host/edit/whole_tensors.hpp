// Owns what an adapter holds beside factors, and which of it the model holds already.
#pragma once

#include <vindex/edit/patch.hpp>

#include <string>
#include <vector>

namespace vindex::edit {

/// Names of the tensors of an adapter that are no factors of a pair, less those that hold the very
/// numbers of a matrix of `base`: PEFT saves the weight of an embedding beside its factors
/// (NAME.base_layer.weight), and of a model that ties its output to the embedding both. Memory: two
/// slabs. Errors: those of reading.
std::vector<std::string> whole_tensors(const shard::ModelFiles& files,
                                       const model::ModelIndex& index, const PatchBase* base);

}  // namespace vindex::edit
