// Owns the index of a sharded safetensors model, model.safetensors.index.json: {"metadata":
// {"total_size": n, ...}, "weight_map": {tensor: file}}. Source: huggingface/transformers, sharded
// checkpoints.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
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

}  // namespace vindex::input
