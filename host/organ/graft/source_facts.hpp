// Owns what the checks need of an opened model: its keys as values, its table as names and shapes.
#pragma once

#include "graft_checks.hpp"

#include "organ/source/gguf_source.hpp"

namespace vindex::organ {

/// Reads every key's value once. Errors: those of ByteSource::read().
ModelFacts facts_of(const GgufSource& model);

}  // namespace vindex::organ
