// Owns opening such folders and files and listing their arrays.
#include "array_files.hpp"

#include "npy.hpp"

#include "input/local/file_kind.hpp"
#include "input/model_folder.hpp"
#include "input/safetensors/safetensors.hpp"
#include "input/shard_list.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::input {

namespace {

constexpr std::string_view kNpySuffix = ".npy";
constexpr std::string_view kSafetensorsSuffix = ".safetensors";

std::vector<std::string> array_files(ModelStore& store) {
  std::vector<std::string> names;
  for (const StoreMember& member : store.list()) {
    const std::string& name = member.name;
    if (!member.folder && !name.starts_with('.') &&
        (name.ends_with(kNpySuffix) || name.ends_with(kSafetensorsSuffix))) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  if (names.empty()) {
    throw_empty_folder(store, "no *.npy and no *.safetensors");
  }
  return names;
}

void append_npy(Shard shard, ModelFiles& files) {
  NpyHeader header = read_npy_header(*shard.source);
  shard.header_sha256 = std::move(header.header_sha256);
  std::string name = shard.file_name;
  if (name.ends_with(kNpySuffix)) {
    name.resize(name.size() - kNpySuffix.size());
  }
  files.tensors.push_back({std::move(name), header.type, std::move(header.shape),
                           static_cast<std::int32_t>(files.shards.size()), header.offset,
                           header.bytes});
  files.shards.push_back(std::move(shard));
}

void append_safetensors(Shard shard, ModelFiles& files) {
  if (detect_container(*shard.source) != FileKind::kSafetensors) {
    throw FormatError("E-ARRAY-KIND", printable(shard.path),
                      "a GGUF file: arrays are read from .npy and .safetensors files");
  }
  SafetensorsHeader header = read_safetensors_header(*shard.source);
  shard.header_sha256 = std::move(header.header_sha256);
  for (SafetensorsTensor& tensor : header.tensors) {
    files.tensors.push_back({std::move(tensor.name), tensor.type, std::move(tensor.shape),
                             static_cast<std::int32_t>(files.shards.size()), tensor.offset,
                             tensor.bytes});
  }
  files.shards.push_back(std::move(shard));
}

}  // namespace

ModelFiles open_array_files(const std::string& address, const std::stop_token& stop) {
  const std::shared_ptr<ModelStore> store = open_store(address, stop);
  ModelFiles files;
  files.store = store;
  files.path = store->address();
  const std::vector<std::string> names =
      store->file().empty() ? array_files(*store) : std::vector<std::string>{store->file()};
  for (const std::string& name : names) {
    Shard shard = open_shard(*store, name);
    if (name.ends_with(kNpySuffix) || is_npy(*shard.source)) {
      append_npy(std::move(shard), files);
    } else {
      append_safetensors(std::move(shard), files);
    }
    files.shards.back().source->header_is_read();
  }
  refuse_doubled_tensors(files, NameIndex(tensor_names(files)));
  warn_of_links(*store, files);
  return files;
}

}  // namespace vindex::input
