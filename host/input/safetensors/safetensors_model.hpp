// Owns putting a safetensors model together: one file, or the shards that an index maps.
#pragma once

#include "input/local/file_source.hpp"
#include "input/model_files.hpp"
#include "input/model_folder.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::input {

/// One file by itself, opened.
void open_safetensors_file(Shard shard, ModelFiles& model);

/// A folder in Hugging Face layout. Errors: FormatError E-INDEX-*, MissingInputError
/// E-SHARD-MISSING, before any shard's header is read where a shard is absent.
void open_safetensors_folder(ModelStore& store, const FolderListing& listing,
                             const OpenOptions& options, ModelFiles& model);

/// Reads config.json, else <stem>.config.json (or the file that `options` name) into
/// `model.config`, hf_quant_config.json into `model.quantisation`, and where there are LoRA factors
/// adapter_config.json into `model.adapter`.
void read_config(ModelStore& store, const std::string& stem, const OpenOptions& options,
                 ModelFiles& model);

}  // namespace vindex::input
