// Owns opening a side as GGUF or safetensors and filling the common form.
#include "diff_side.hpp"

#include "source_facts.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/path_kind.hpp>
#include <vindex/organ/compose.hpp>
#include <vindex/shard/model_store.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace vindex::organ {
namespace {

namespace fs = std::filesystem;

/// Whether the path is for the readers of GGUF: they name what is wrong with everything else.
bool is_gguf(const std::string& path) {
  if (!is_folder(path)) {
    return !path.ends_with(".safetensors");
  }
  if (path_kind(fs::path(path) / "manifest.json") != PathKind::kAbsent) {
    return true;
  }
  const std::vector<shard::StoreMember> members = shard::open_local_store(path)->list();
  return std::any_of(members.begin(), members.end(),
                     [](const auto& member) { return member.name.ends_with(".gguf"); });
}

}  // namespace

OpenedSide::OpenedSide(const std::string& path) : path_(path) {
  if (is_gguf(path)) {
    take_gguf();
  } else {
    take_safetensors();
  }
}

void OpenedSide::take_gguf() {
  gguf_ = open_gguf(path_);
  for (std::size_t i = 0; i < gguf_->tensors().size(); ++i) {
    tensors_.push_back(placed(*gguf_, i));
  }
  for (const shard::GgufKey& key : gguf_->keys()) {
    if (!is_split_key(key.name)) {
      keys_.push_back(&key);
    }
  }
}

void OpenedSide::take_safetensors() {
  files_ = shard::open_model(path_);
  for (const shard::StoredTensor& tensor : files_->tensors) {
    PlacedTensor place = {
        .name = tensor.name,
        .type = tensor.type,
        .dimensions = {},
        .source = files_->shards.at(static_cast<std::size_t>(tensor.shard)).source.get(),
        .offset = tensor.offset,
        .bytes = tensor.bytes};
    for (auto dimension = tensor.shape.rbegin(); dimension != tensor.shape.rend(); ++dimension) {
      place.dimensions.push_back(static_cast<std::uint64_t>(*dimension));
    }
    tensors_.push_back(std::move(place));
  }
}

GgufValue OpenedSide::value(const shard::GgufKey& key) const {
  const GgufSplit& first = gguf_->splits().front();
  return {key, first.header, *first.source};
}

DiffSide OpenedSide::summary() const {
  DiffSide side = {.path = path_,
                   .format = gguf_ ? "GGUF" : "safetensors",
                   .architecture = gguf_ ? gguf_->architecture() : "",
                   .tensors = tensors_.size(),
                   .keys = keys_.size()};
  for (const PlacedTensor& tensor : tensors_) {
    side.bytes += tensor.bytes;
  }
  return side;
}

void OpenedSide::require_unchanged() const {
  if (gguf_) {
    gguf_->require_unchanged();
    return;
  }
  for (const shard::Shard& shard : files_->shards) {
    const shard::SourceIdentity now = shard.source->identity();
    if (now.bytes != shard.identity.bytes || now.version != shard.identity.version) {
      throw SystemError("E-INPUT-CHANGED", EIO,
                        printable(shard.path) + " changed while it was read; run again");
    }
  }
}

}  // namespace vindex::organ
