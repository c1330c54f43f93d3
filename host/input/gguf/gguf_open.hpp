// Owns putting a GGUF model together: one file, or the splits of a set, which name each other and
// tell of one model.
#pragma once

#include "gguf_set.hpp"

#include "gguf/header.hpp"
#include "input/local/file_source.hpp"
#include "input/model_files.hpp"
#include "input/model_store.hpp"

#include <string>
#include <vector>

namespace vindex::input {

/// Adds the model that the opened member `shard` of `store` belongs to. Errors: FormatError
/// E-SPLIT-* for sets that are incomplete, doubled, mixed or misnumbered, E-GGUF-KIND for files
/// that hold no model (an adapter is one where `options` ask for it).
void open_gguf_model(ModelStore& store, Shard shard, const OpenOptions& options, ModelFiles& model);

/// Opens the GGUF model of a folder. Errors: as above; FormatError E-FOLDER-SEVERAL listing
/// the models where there is more than one.
void open_gguf_folder(ModelStore& store, const std::vector<std::string>& files,
                      const OpenOptions& options, ModelFiles& model);

/// A later file of a set repeats keys of the first or has none but its own (`split.*`,
/// `general.alignment`): what else it said of the model would be passed over in silence. Errors:
/// FormatError E-SPLIT-MIXED naming the file, the key and both values.
void require_same_metadata(const gguf::Header& first, ByteSource& first_source,
                           const gguf::Header& later, ByteSource& later_source);

}  // namespace vindex::input
