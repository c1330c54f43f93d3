// Owns what the checks need of an opened model: its keys as values, its table as names and shapes.
#pragma once

#include "graft.hpp"

#include "input/model_files.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/source/tensor_pair.hpp"

namespace vindex::organ {

/// Reads every key's value once. Errors: those of ByteSource::read().
ModelFacts facts_of(const GgufSource& model);

/// A tensor where it lies: number `index` of a GGUF model; one of `model`, as GGUF would have it.
PlacedTensor placed(const GgufSource& model, std::size_t index);
PlacedTensor placed(const input::ModelFiles& model, const input::StoredTensor& tensor);

}  // namespace vindex::organ
