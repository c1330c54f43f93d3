// Owns both containers' organs as stored tensors.
#include "organ_model.hpp"

#include "organ_folder.hpp"

#include "core/files/path_kind.hpp"
#include "input/local/file_source.hpp"
#include "input/safetensors/safetensors_model.hpp"
#include "input/stores/open_store.hpp"
#include "organ/manifest/manifest.hpp"
#include "organ/manifest/manifest_read.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/source/organ_source.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace vindex::organ {
namespace {

input::StoredTensor stored_tensor(gguf::Tensor tensor, std::size_t shard) {
  input::StoredTensor stored;
  stored.name = std::move(tensor.name);
  stored.type = tensor.type;
  stored.shape.assign(tensor.dimensions.rbegin(), tensor.dimensions.rend());
  stored.shard = static_cast<std::int32_t>(shard);
  stored.offset = tensor.offset;
  stored.bytes = tensor.bytes;
  return stored;
}

void open_gguf_organs(const std::string& path, input::ModelFiles& model) {
  GgufParts parts = parts_of_organ_folder(path, {});
  model.format = input::ContainerFormat::kGguf;
  model.shards = std::move(parts.files);
  model.side_files = std::move(parts.side_files);
  model.warnings = std::move(parts.warnings);
  gguf::Header& header = parts.splits.front().header;
  model.gguf_version = header.version;
  model.keys = std::move(header.keys);
  for (OrganTensor& tensor : parts.tensors) {
    const std::size_t file = tensor.file;
    model.tensors.push_back(stored_tensor(std::move(tensor), file));
  }
}

void open_safetensors_organs(const std::string& folder, const Manifest& manifest,
                             input::ModelStore& store, const input::OpenOptions& options,
                             input::ModelFiles& model) {
  model.format = input::ContainerFormat::kSafetensors;
  model.side_files = manifest.side_files;
  const auto open = std::make_shared<OpenOrgans>();
  for (const ManifestTensor& wanted : manifest.tensors) {
    input::Shard shard;
    shard.path = folder + "/" + wanted.file;
    shard.file_name = file_name_of(wanted.file);
    shard.source = std::make_unique<OrganSource>(shard.path, open);
    shard.identity = shard.source->identity_at_opening();
    if (shard.file_name.ends_with(".safetensors")) {
      input::open_safetensors_file(std::move(shard), model);
      continue;
    }
    gguf::Tensor tensor = only_tensor(shard, wanted.name);
    model.tensors.push_back(stored_tensor(std::move(tensor), model.shards.size()));
    model.shards.push_back(std::move(shard));
  }
  input::read_config(store, "config", options, model);
}

}  // namespace

input::ModelFiles open_organ_model(const std::string& path, const input::OpenOptions& options) {
  const std::string folder = organ_folder_of(path);
  const Manifest manifest = read_manifest(folder);
  input::ModelFiles model;
  model.path = path;
  model.store = input::open_store(folder, options.stop);
  if (manifest.safetensors) {
    open_safetensors_organs(folder, manifest, *model.store, options, model);
  } else {
    open_gguf_organs(path, model);
  }
  if (model.tensors.empty()) {
    throw MissingInputError(
        "E-NO-TENSORS",
        fmt::format("{}: nothing to measure, it holds no tensors", printable(path)));
  }
  return model;
}

bool holds_organs(const std::string& folder) {
  constexpr std::size_t kBeginning = 4096;  // the schema is the first member
  const std::string manifest = folder + "/" + kManifestName;
  if (path_kind(manifest) != PathKind::kFile) {
    return false;
  }
  const auto source = input::open_file_source(manifest);
  return beginning_of(*source, kBeginning).find(kManifestSchema) != std::string::npos;
}

}  // namespace vindex::organ
