// Owns putting a GGUF model together: one file, or the splits of a set, which name each other.
#pragma once

#include <vindex/shard/gguf_set.hpp>
#include <vindex/shard/model_files.hpp>
#include <vindex/shard/model_store.hpp>

#include <string>
#include <vector>

namespace vindex::shard {

/// Adds the model that the opened member `shard` of `store` belongs to. Errors: FormatError
/// E-SPLIT-* for sets that are incomplete, doubled, mixed or misnumbered, E-GGUF-KIND for files
/// that hold no model (an adapter is one where `options` ask for it).
void open_gguf_model(ModelStore& store, Shard shard, const OpenOptions& options, ModelFiles& model);

/// Opens the GGUF model of a folder. Errors: as above; FormatError E-FOLDER-SEVERAL listing
/// the models where there is more than one.
void open_gguf_folder(ModelStore& store, const std::vector<std::string>& files,
                      const OpenOptions& options, ModelFiles& model);

}  // namespace vindex::shard
