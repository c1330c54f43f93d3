// Owns putting a safetensors model together: one file, or the shards that an index maps. The index
// is model.safetensors.index.json: {"metadata": {"total_size": n, ...}, "weight_map": {tensor:
// file}}. Source: huggingface/transformers, sharded checkpoints.
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

/// A parsed index. The views point into `text`: move-only, and a move keeps them valid.
struct SafetensorsIndex {
  SafetensorsIndex() = default;
  SafetensorsIndex(SafetensorsIndex&&) = default;
  SafetensorsIndex& operator=(SafetensorsIndex&&) = default;
  SafetensorsIndex(const SafetensorsIndex&) = delete;
  SafetensorsIndex& operator=(const SafetensorsIndex&) = delete;

  std::unique_ptr<char[]> text;
  std::vector<std::string_view> tensors;  ///< keys of the weight map, in file order
  std::vector<std::uint32_t> file_of;     ///< in the same order: which of `files`
  std::vector<std::string_view> files;    ///< its values once each, plain names, sorted
  std::optional<std::uint64_t> total_size;
};

/// Errors: FormatError E-INDEX-* and E-JSON-*.
SafetensorsIndex read_safetensors_index(ByteSource& source);

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
