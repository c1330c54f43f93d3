// Owns what the tests of rewritten models share: tensors compared byte by byte.
#pragma once
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/file_content.hpp"
#include "write/rewrite_model.hpp"
#include <vindex/error.hpp>

#include <map>
#include <span>
#include <string>

namespace vindex::write {

using vindex::testing::file_text;
using vindex::testing::folder_content;

/// Bytes of every tensor, by name.
inline std::map<std::string, std::string> tensor_content(const std::string& model) {
  const input::ModelFiles files = input::open_model(model);
  std::map<std::string, std::string> content;
  for (const input::StoredTensor& tensor : files.tensors) {
    std::string& bytes = content[tensor.name];
    bytes.resize(tensor.bytes);
    files.shards[static_cast<std::size_t>(tensor.shard)].source->read(
        tensor.offset, std::as_writable_bytes(std::span(bytes)));
  }
  return content;
}

/// Opens and writes again with nothing changed.
inline RewriteReport copy_model(const std::string& model, const std::string& target) {
  return rewrite_model(input::open_model(model), target);
}

}  // namespace vindex::write
