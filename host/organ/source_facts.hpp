// Owns what the checks need of an opened model: its keys as values, its table as names and shapes.
#pragma once

#include "gguf_source.hpp"
#include "graft.hpp"
#include "tensor_pair.hpp"

namespace vindex::organ {

/// Reads every key's value once. Errors: those of ByteSource::read().
ModelFacts facts_of(const GgufSource& model);

/// Tensor `index` where it lies.
PlacedTensor placed(const GgufSource& model, std::size_t index);

}  // namespace vindex::organ
