// Owns putting a safetensors model together: one file, or the shards that an index maps.
#pragma once

#include "model_folder.hpp"

#include <vindex/shard/model_files.hpp>

#include <string>

namespace vindex::shard {

/// One file by itself.
void open_safetensors_file(const std::string& path, ModelFiles& model);

/// A folder in Hugging Face layout. Errors: FormatError E-INDEX-*, MissingInputError
/// E-SHARD-MISSING, before any shard's header is read where a shard is absent.
void open_safetensors_folder(const std::string& folder, const FolderListing& listing,
                             std::int32_t threads, ModelFiles& model);

/// Reads config.json (or `explicit_path` where not empty) into `model.config`. `folder` is where it
/// lies, `stem` the file's name without suffix for `<stem>.config.json`, or empty.
/// adapter_config.json likewise into `model.adapter`, where there are LoRA factors.
void read_config(const std::string& explicit_path, const std::string& folder,
                 const std::string& stem, ModelFiles& model);

}  // namespace vindex::shard
