// Owns choosing how a path is opened: file, folder, index or set.
#include "open_model.hpp"

#include "input/gguf/gguf_set.hpp"
#include "input/local/file_kind.hpp"
#include "input/model_folder.hpp"
#include "input/safetensors/safetensors_model.hpp"
#include "input/shard_list.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::input {

namespace {

/// The name without its last suffix: "a.b.safetensors" gives "a.b".
std::string stem_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

void open_folder(ModelStore& store, const OpenOptions& options, ModelFiles& model) {
  const FolderListing listing = list_folder(store);
  if (!listing.indexes.empty() || !listing.safetensors.empty()) {
    open_safetensors_folder(store, listing, options, model);
    read_config(store, stem_of(model.shards.front().file_name), options, model);
  } else if (!listing.gguf.empty()) {
    open_gguf_folder(store, listing.gguf, options, model);
  } else if (!listing.pickles.empty()) {
    throw FormatError("E-FILE-PICKLE", printable(store.location({})),
                      fmt::format("only Python pickles lie here ({}): convert them to safetensors "
                                  "(pickles can run code and are never read)",
                                  join_names(listing.pickles)));
  } else {
    throw_empty_folder(store, "no *.safetensors and no *.gguf");
  }
}

/// A set by its index: what can name one where no folder can be listed.
void open_index(ModelStore& store, const OpenOptions& options, ModelFiles& model) {
  FolderListing listing;
  listing.indexes = {store.file()};
  open_safetensors_folder(store, listing, options, model);
  read_config(store, stem_of(model.shards.front().file_name), options, model);
}

void open_file(ModelStore& store, const OpenOptions& options, ModelFiles& model) {
  if (store.file().ends_with(".safetensors.index.json")) {
    return open_index(store, options, model);
  }
  Shard shard = open_shard(store, store.file());
  if (detect_container(*shard.source) == FileKind::kGguf) {
    return open_gguf_model(store, std::move(shard), options, model);
  }
  open_safetensors_file(std::move(shard), model);
  read_config(store, stem_of(store.file()), options, model);
}

}  // namespace

ModelFiles open_model(const std::string& address, const OpenOptions& options) {
  return open_model(open_store(address, options.stop), options);
}

ModelFiles open_model(std::shared_ptr<ModelStore> store, const OpenOptions& options) {
  ModelFiles model;
  model.path = store->address();
  if (store->file().empty()) {
    open_folder(*store, options, model);
  } else {
    open_file(*store, options, model);
  }
  warn_of_links(*store, model);
  model.store = std::move(store);
  if (model.tensors.empty()) {
    throw MissingInputError(
        "E-NO-TENSORS",
        fmt::format("{}: nothing to measure, it holds no tensors", printable(model.path)));
  }
  if (model.format == ContainerFormat::kGguf && !options.model_config.empty()) {
    model.warnings.push_back(
        {"W-CONFIG-UNUSED", "GGUF files carry their own keys: --model-config is not read"});
  }
  return model;
}

}  // namespace vindex::input
