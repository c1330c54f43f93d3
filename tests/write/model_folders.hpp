// Owns what the tests of rewritten models share: folders compared byte by byte.
#pragma once

#include <vindex/core/error.hpp>
#include <vindex/shard/model_files.hpp>
#include <vindex/write/rewrite_model.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace vindex::write::testing {

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Content of every file, by name.
inline std::map<std::string, std::string> folder_content(const std::filesystem::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    content[entry.path().filename()] = file_text(entry.path());
  }
  return content;
}

/// Bytes of every tensor, by name.
inline std::map<std::string, std::string> tensor_content(const std::string& model) {
  const shard::ModelFiles files = shard::open_model(model);
  std::map<std::string, std::string> content;
  for (const shard::StoredTensor& tensor : files.tensors) {
    std::string& bytes = content[tensor.name];
    bytes.resize(tensor.bytes);
    files.shards[static_cast<std::size_t>(tensor.shard)].source->read(
        tensor.offset, std::as_writable_bytes(std::span(bytes)));
  }
  return content;
}

/// Opens and writes again with nothing changed.
inline RewriteReport copy_model(const std::string& model, const std::string& target) {
  return rewrite_model(shard::open_model(model), target);
}

}  // namespace vindex::write::testing
