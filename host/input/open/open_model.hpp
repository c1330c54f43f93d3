// Owns choosing how an address is opened as a model: file, folder, index or set.
#pragma once
#include "input/model_files.hpp"

#include <memory>
#include <string>

namespace vindex::input {

/// Opens a folder (Hugging Face layout, a repository of its cache with one snapshot, or GGUF
/// splits), one .safetensors, or one .gguf (the first split finds the rest). Reads headers only.
/// Errors: as the input policy says (FormatError 65, MissingInputError 66, SystemError 77),
/// before anything is returned; a folder with several unrelated models is a
/// MissingInputError/FormatError that lists them; those of open_store() and of the store.
ModelFiles open_model(const std::string& address, const OpenOptions& options = {});
ModelFiles open_model(std::shared_ptr<ModelStore> store, const OpenOptions& options = {});

}  // namespace vindex::input
