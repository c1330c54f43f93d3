// Owns going through a model's shards and side files, each copied or written anew.
#include "rewrite_model.hpp"

#include "edited_copy.hpp"
#include "output_folder.hpp"
#include "safetensors_writer.hpp"

#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "core/process/stop.hpp"
#include "gguf/header.hpp"
#include "gguf/read_header.hpp"
#include "gguf/writing/writer.hpp"
#include "input/model_folder.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>

namespace vindex::write {
namespace {

namespace fs = std::filesystem;
using input::ModelFiles;

/// What other weights of the model would be called; they would contradict the new ones.
constexpr std::array<std::string_view, 12> kOtherWeights = {
    ".safetensors", ".gguf", ".bin",     ".pt",   ".pth", ".ckpt",
    ".pkl",         ".h5",   ".msgpack", ".onnx", ".npz", ".index.json"};

/// The model's tensors of each file, by position.
using TensorsOfShard = std::vector<std::vector<std::size_t>>;

TensorsOfShard tensors_by_shard(const ModelFiles& model) {
  TensorsOfShard tensors(model.shards.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    tensors[static_cast<std::size_t>(model.tensors[i].shard)].push_back(i);
  }
  return tensors;
}

void write_gguf(const input::Shard& shard, const std::vector<std::size_t>& tensors,
                TensorCopy& copy, const ModelFiles& model, AtomicFile& file) {
  const gguf::Header header = gguf::read_header(*shard.source);
  gguf::KeySection keys;
  for (const gguf::Key& key : header.keys) {
    keys.copy(key, header, *shard.source);
  }
  std::vector<gguf::TensorLayout> layout;
  std::map<std::string_view, std::size_t> places;
  for (const gguf::Tensor& tensor : header.tensors) {
    places.emplace(tensor.name, layout.size());
    layout.push_back(tensor);
  }
  gguf::Writer writer(file, keys, std::move(layout));
  for (const std::size_t index : tensors) {
    const auto place = places.find(model.tensors[index].name);
    if (place == places.end()) {
      throw SystemError("E-INPUT-CHANGED", 0, shard.source->name() + ": changed while it was read");
    }
    copy.run(index, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      writer.write(place->second, offset, bytes);
    });
  }
  writer.finish();
}

void write_safetensors(const input::Shard& shard, const std::vector<std::size_t>& tensors,
                       TensorCopy& copy, const ModelFiles& model, AtomicFile& file) {
  std::vector<SafetensorsTensor> layout;
  for (const std::size_t index : tensors) {
    const input::StoredTensor& tensor = model.tensors[index];
    layout.push_back({tensor.name, tensor.type, tensor.shape});
  }
  SafetensorsWriter writer(file, std::move(layout), read_safetensors_metadata(*shard.source),
                           TensorOrder::kAsGiven);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    copy.run(tensors[i], [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      writer.write(i, offset, bytes);
    });
  }
  writer.finish();
}

/// Writes shard `index` to `file`, through to the device: few files are open at a time.
void write_shard(const ModelFiles& model, std::size_t index,
                 const std::vector<std::size_t>& tensors, TensorCopy& copy, AtomicFile& file) {
  const input::Shard& shard = model.shards[index];
  const auto write = model.format == input::ContainerFormat::kGguf ? write_gguf : write_safetensors;
  write(shard, tensors, copy, model, file);
  file.flush();
  input::require_unchanged(shard, "copied");
}

/// The folder that the model's files lie in.
std::string source_folder(const ModelFiles& model) { return folder_of(model.shards.front().path); }

void refuse_source_as_target(const ModelFiles& model, const std::string& target) {
  std::vector<std::string> sources = model.side_files;
  sources.push_back(source_folder(model));
  sources.push_back(model.path);
  for (const input::Shard& shard : model.shards) {
    sources.push_back(shard.path);
  }
  for (const std::string& source : sources) {
    if (is_same_file(source, target)) {
      throw OutputError("E-OUTPUT-SOURCE",
                        fmt::format("{}: belongs to the model that is read; choose another name",
                                    printable(target)));
    }
  }
}

/// What is copied of the folder beside the shards, sorted.
std::vector<std::string> side_files(const ModelFiles& model, input::ModelStore& store) {
  std::vector<std::string> known;  // the index among them
  for (const std::string& path : model.side_files) {
    known.push_back(file_name_of(path));
  }
  const auto is_selected = [&](const std::string& name) {
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      return true;
    }
    return !name.starts_with('.') && name.find(".tmp.") == std::string::npos &&
           std::none_of(kOtherWeights.begin(), kOtherWeights.end(),
                        [&](std::string_view suffix) { return name.ends_with(suffix); });
  };
  std::vector<std::string> names;
  for (const input::StoreMember& member : store.list()) {
    if (!member.folder && is_selected(member.name) && input::member_exists(store, member.name)) {
      names.push_back(member.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void copy_side_file(input::ModelStore& store, const std::string& name, OutputFolder& folder,
                    RewriteReport& report) {
  std::unique_ptr<ByteSource> source;
  try {
    source = store.open(name);
  } catch (const MissingInputError&) {
    return;  // a link to a folder: folders are left out
  }
  AtomicFile& file = folder.create(name);
  copy_source(*source, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    file.write(offset, bytes);
  });
  file.flush();
  report.files.push_back(name);
}

std::uint64_t bytes_of(const ModelFiles& model) {
  std::uint64_t bytes = 0;
  for (const input::Shard& shard : model.shards) {
    bytes += shard.identity.bytes;
  }
  return bytes;
}

void write_folder(const ModelFiles& model, const TensorsOfShard& tensors, TensorCopy& copy,
                  const std::string& target, input::ModelStore& store, RewriteReport& report) {
  OutputFolder folder(target);
  folder.require_space(bytes_of(model));
  for (std::size_t i = 0; i < model.shards.size(); ++i) {
    report.files.push_back(model.shards[i].file_name);
    write_shard(model, i, tensors[i], copy, folder.create(report.files.back()));
  }
  for (const std::string& name : side_files(model, store)) {
    copy_side_file(store, name, folder, report);
  }
  folder.publish();
}

}  // namespace

RewriteReport rewrite_model(const ModelFiles& model, const std::string& target,
                            const ModelEdit& edit, const RewriteOptions& options) {
  refuse_source_as_target(model, target);
  const std::vector<EditPart> parts = plan_edit(model, edit);
  const TensorsOfShard tensors = tensors_by_shard(model);
  TensorCopy copy(model, parts, options.stop);
  RewriteReport report;
  input::ModelStore& store = *model.store;
  try {
    if (model.shards.size() == 1 && !store.file().empty()) {
      require_free_target(target, options.replace, "--force");
      require_free_space(target, bytes_of(model));
      AtomicFile file(target, kOutputErrors);
      write_shard(model, 0, tensors.front(), copy, file);
      file.publish();
      report.files.push_back(file_name_of(target));
    } else {
      write_folder(model, tensors, copy, target, store, report);
    }
  } catch (const Stopped&) {
    report.files.clear();
    report.stopped = true;
    return report;
  }
  report.counts = copy.counts();
  return report;
}

}  // namespace vindex::write
