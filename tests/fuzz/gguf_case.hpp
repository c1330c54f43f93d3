// Owns a GGUF file in memory as the reader of models gives it, for fuzz targets: read, every tensor
// within the file, data of the other byte order reversed.
#pragma once
#include "gguf/header.hpp"
#include "gguf/read_header.hpp"
#include "gguf/swapped_source.hpp"
#include "input/model_files.hpp"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace vindex::fuzz {

/// The one-file model in `data`. Errors: those of gguf::read_header(). Aborts where a tensor or a
/// key does not lie inside the file.
inline input::ModelFiles gguf_model(std::span<const std::uint8_t> data) {
  input::ModelFiles model;
  model.format = input::ContainerFormat::kGguf;
  model.path = "fuzz.gguf";
  input::Shard& file = model.shards.emplace_back();
  file.file_name = model.path;
  file.source = input::make_memory_source(model.path, std::as_bytes(data));
  gguf::Header header = gguf::read_header(*file.source);
  for (const gguf::Key& key : header.keys) {
    if (key.value_offset > data.size() || key.value_bytes > data.size() - key.value_offset) {
      std::abort();
    }
  }
  for (gguf::Tensor& tensor : header.tensors) {
    if (tensor.bytes > 0 &&
        (tensor.offset > data.size() || tensor.bytes > data.size() - tensor.offset)) {
      std::abort();
    }
    input::StoredTensor& stored = model.tensors.emplace_back();
    stored.name = tensor.name;
    stored.type = tensor.type;
    stored.shape.assign(tensor.dimensions.rbegin(), tensor.dimensions.rend());
    stored.offset = tensor.offset;
    stored.bytes = tensor.bytes;
  }
  if (header.big_endian) {
    file.source = gguf::make_swapped_source(std::move(file.source), header.tensors);
  }
  model.keys = std::move(header.keys);
  return model;
}

}  // namespace vindex::fuzz
