// Owns making one list of keys and tensors of a set of files.
#include "open_gguf.hpp"

#include "input/gguf/gguf_set.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest_read.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace vindex::organ {

namespace {

GgufParts parts_of_set(const std::string& path) {
  GgufParts parts;
  parts.path = path;
  std::vector<input::GgufFile> set = input::open_gguf_set(*input::open_store(path), parts.warnings);
  for (input::GgufFile& file : set) {
    const std::size_t split = parts.splits.size();
    for (gguf::Tensor& tensor : file.header.tensors) {
      parts.tensors.push_back({std::move(tensor), split, split});
    }
    file.header.tensors = {};
    std::move(file.header.warnings.begin(), file.header.warnings.end(),
              std::back_inserter(parts.warnings));
    parts.splits.push_back({.file_name = file.shard.file_name,
                            .path = file.shard.path,
                            .header = std::move(file.header),
                            .source = file.shard.source.get()});
    parts.files.push_back(std::move(file.shard));
  }
  parts.tensors_total = parts.tensors.size();
  return parts;
}

}  // namespace

std::unique_ptr<GgufSource> open_gguf(const std::string& path, const OpenGgufOptions& options) {
  if (is_organ_folder(path)) {
    return std::make_unique<GgufSource>(parts_of_organ_folder(path, options));
  }
  GgufParts parts = parts_of_set(path);
  if (parts.tensors.empty() && input::open_store(path)->file().empty()) {
    throw MissingInputError(
        "E-ORGAN-MANIFEST",
        fmt::format("{}: holds no {} and no tensor: a folder of organs whose manifest is gone, "
                    "extract again; a file of keys alone is named itself",
                    printable(path), kManifestName));
  }
  return std::make_unique<GgufSource>(std::move(parts));
}

}  // namespace vindex::organ
