#include "file_kind.hpp"
#include "gguf_model.hpp"
#include "model_folder.hpp"
#include "remote_address.hpp"
#include "safetensors_model.hpp"
#include "shard_list.hpp"

#include <vindex/core/error.hpp>
#include <vindex/shard/model_files.hpp>

#include <fmt/format.h>

#include <filesystem>

namespace vindex::shard {

namespace fs = std::filesystem;

namespace {
void open_folder(const std::string& folder, const OpenOptions& options, ModelFiles& model) {
  const FolderListing listing = list_folder(folder);
  if (!listing.indexes.empty() || !listing.safetensors.empty()) {
    open_safetensors_folder(folder, listing, options.threads, model);
    read_config(options.model_config, folder, fs::path(model.shards.front().path).stem().string(),
                model);
  } else if (!listing.gguf.empty()) {
    open_gguf_folder(folder, listing.gguf, options, model);
  } else if (!listing.pickles.empty()) {
    throw FormatError("E-FILE-PICKLE", printable(folder),
                      fmt::format("only Python pickles lie here ({}): convert them to safetensors "
                                  "(pickles can run code and are never read)",
                                  join_names(listing.pickles)));
  } else {
    throw MissingInputError(
        "E-FOLDER-EMPTY",
        fmt::format("{}: no *.safetensors and no *.gguf in this folder", printable(folder)));
  }
}

void open_file(const std::string& path, const OpenOptions& options, ModelFiles& model) {
  const FileKind kind = detect_container(*open_file_source(path));
  if (kind == FileKind::kGguf) {
    return open_gguf_model(path, options, model);
  }
  open_safetensors_file(path, model);
  const fs::path folder = fs::path(path).parent_path();
  read_config(options.model_config, folder.empty() ? "." : folder.string(),
              fs::path(path).stem().string(), model);
}
}  // namespace

ModelFiles open_model(const std::string& path, const OpenOptions& options) {
  refuse_remote_address(path);
  ModelFiles model;
  model.path = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const std::string snapshot = snapshot_of_cache(path);
    open_folder(snapshot.empty() ? path : snapshot, options, model);
  } else {
    open_file(path, options, model);
  }
  warn_of_links(model);
  if (model.tensors.empty()) {
    throw MissingInputError(
        "E-NO-TENSORS",
        fmt::format("{}: nothing to measure, it holds no tensors", printable(path)));
  }
  if (model.format == ContainerFormat::kGguf && !options.model_config.empty()) {
    model.warnings.push_back(
        {"W-CONFIG-UNUSED", "GGUF files carry their own keys: --model-config is not read"});
  }
  return model;
}

}  // namespace vindex::shard
