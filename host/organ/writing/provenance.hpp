// Owns the keys of a model that was changed: what it descends from, what was done to it, and what
// no longer holds of it. Source of the names: ggml docs/gguf.md ("Source metadata"), llama.cpp
// gguf-py/gguf/constants.py.
#pragma once

#include "composition.hpp"

#include "gguf/writing/key_section.hpp"
#include "organ/source/gguf_source.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

struct Provenance {
  /// Every model that gave something, the host first; base_model.N is written of each.
  std::vector<const GgufSource*> parents = {};
  /// Appended to organ.history: one line for this step.
  std::string history = {};
  std::string name = {};       ///< general.name; empty: the host's
  bool values_changed = true;  ///< quantize.imatrix.* of the host does not hold any more
};

/// A number of general.file_type (llama.cpp's LLAMA_FTYPE_MOSTLY_*) for the type that most weights
/// of two dimensions and more have; nothing for types that no file type names.
std::optional<std::uint32_t> majority_file_type(std::span<const ComposedTensor> tensors);

/// The host's keys, typed and verbatim, without its split keys, with provenance:
/// general.base_model.*, general.tags (of several parents: "merge"), organ.version, organ.history,
/// general.file_type of the majority, general.quantization_version kept; general.uuid and stale
/// quantize.imatrix.* dropped. `edit`, where given, is asked about every key of the host first: it
/// may add another one instead and returns whether the original is to be left out.
gguf::KeySection changed_keys(
    const GgufSource& host, std::span<const ComposedTensor> tensors, const Provenance& provenance,
    const std::function<bool(const gguf::Key& key, gguf::KeySection& keys)>& edit = {});

}  // namespace vindex::organ
