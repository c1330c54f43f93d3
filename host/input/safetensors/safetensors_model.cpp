// Owns opening shards, checking index against headers, and refusing sets with gaps.
#include "safetensors_model.hpp"

#include "safetensors.hpp"
#include "safetensors_index.hpp"

#include "core/files/byte_source.hpp"
#include "input/header_window.hpp"
#include "input/local/file_kind.hpp"
#include "input/shard_list.hpp"
#include "input/stores/open_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

namespace vindex::input {

namespace {
constexpr const char* kCanonicalIndex = "model.safetensors.index.json";
constexpr const char* kSafetensorsFileSuffix = ".safetensors";

/// A file of a model with its header read.
struct OpenedFile {
  Shard shard;
  std::vector<SafetensorsTensor> tensors;
};

OpenedFile read_safetensors_header_of(Shard shard, const AskForRoom& ask_for_room) {
  OpenedFile file;
  file.shard = std::move(shard);
  if (detect_container(*file.shard.source) != FileKind::kSafetensors) {
    throw FormatError("E-INDEX-KIND", printable(file.shard.path),
                      "is not a safetensors file, as its name says");
  }
  SafetensorsHeader header = read_safetensors_header(*file.shard.source, ask_for_room);
  file.shard.source->header_is_read();
  file.shard.header_sha256 = std::move(header.header_sha256);
  file.tensors = std::move(header.tensors);
  return file;
}

void append_safetensors_file(OpenedFile file, ModelFiles& model) {
  const auto number = static_cast<std::int32_t>(model.shards.size());
  for (SafetensorsTensor& tensor : file.tensors) {
    model.tensors.push_back({std::move(tensor.name), tensor.type, std::move(tensor.shape), number,
                             tensor.offset, tensor.bytes});
  }
  model.shards.push_back(std::move(file.shard));
}

/// All of `names`, as if one had been opened after the other. `expected` tensors: a hint.
template <typename Names>
void append_all(ModelStore& store, const Names& names, std::size_t expected,
                const OpenOptions& options, ModelFiles& model) {
  // What is absent is told of before any header is read.
  for (const std::string_view name : names) {
    require_member(store, name);
  }
  std::vector<OpenedFile> files(names.size());
  model.tensors.reserve(expected);
  read_headers(
      names.size(), header_threads(store, options.threads),
      [&](std::size_t i, const AskForRoom& ask) {
        files[i] = read_safetensors_header_of(open_shard(store, std::string(names[i])), ask);
      },
      [&](std::size_t i) { append_safetensors_file(std::exchange(files[i], {}), model); });
}

void check_total_size(const SafetensorsIndex& index, ModelFiles& model) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : model.tensors) {
    bytes += tensor.bytes;  // each lies in its file: the sum is at most that of the files
  }
  if (index.total_size != bytes) {
    model.warnings.push_back(
        {"W-INDEX-TOTAL-SIZE",
         index.total_size
             ? fmt::format("the index says {} bytes of tensors, the shards hold {}",
                           *index.total_size, bytes)
             : fmt::format("the index has no total_size; the shards hold {} bytes", bytes)});
  }
}

void check_weight_map(const SafetensorsIndex& index, const std::string& where, ModelFiles& model) {
  const std::vector<std::string_view> names = tensor_names(model);
  const NameIndex stored(names);
  refuse_doubled_tensors(model, stored);
  NameFollower follower(stored);
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const auto found = follower.find(index.tensors[i]);
    // Shards are the index's files, in their order.
    const std::uint32_t file = index.file_of[i];
    const Shard* shard =
        found ? &model.shards[static_cast<std::size_t>(model.tensors[*found].shard)] : nullptr;
    if (shard == nullptr || shard != &model.shards[file]) {
      throw FormatError("E-INDEX-TENSOR", where,
                        fmt::format("tensor \"{}\" is mapped to {}, which lacks it{}",
                                    excerpt(index.tensors[i]), excerpt(index.files[file]),
                                    shard == nullptr ? std::string()
                                                     : fmt::format(" ({} holds it)",
                                                                   printable(shard->file_name))));
    }
  }
  if (model.tensors.size() == index.tensors.size()) {
    return;
  }
  const NameIndex listed(index.tensors);
  const auto unlisted = std::find_if(names.begin(), names.end(), [&](std::string_view name) {
    return !listed.find(name).has_value();
  });
  model.warnings.push_back(
      {"W-INDEX-UNLISTED",
       fmt::format("{} tensors are in the shards and not in the index, for example \"{}\"",
                   model.tensors.size() - index.tensors.size(),
                   unlisted == names.end() ? std::string()
                                           : printable(std::string(unlisted->substr(0, 200))))});
}

void open_indexed(ModelStore& store, const std::string& index_name, const FolderListing& listing,
                  const OpenOptions& options, ModelFiles& model) {
  require_member(store, index_name);
  const std::string index_path = store.location(index_name);
  const SafetensorsIndex index = read_safetensors_index(*store.open(index_name));
  model.side_files.push_back(index_path);
  append_all(store, index.files, index.tensors.size(), options, model);
  check_weight_map(index, printable(index_path), model);
  check_total_size(index, model);
  std::vector<std::string> others;
  for (const auto* names : {&listing.safetensors, &listing.gguf, &listing.indexes}) {
    std::copy_if(names->begin(), names->end(), std::back_inserter(others),
                 [&](const std::string& name) {
                   return name != index_name &&
                          !std::binary_search(index.files.begin(), index.files.end(), name);
                 });
  }
  warn_of_others(others, model);
}

/// PREFIX-%05d-of-%05d.safetensors, with more than one of.
bool is_shard_name(const std::string& name) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd.safetensors";
  if (name.size() < kPattern.size() || name.ends_with("-of-00001.safetensors")) {
    return false;
  }
  const std::string_view tail = std::string_view(name).substr(name.size() - kPattern.size());
  return std::equal(tail.begin(), tail.end(), kPattern.begin(), [](char c, char wanted) {
    return wanted == 'd' ? c >= '0' && c <= '9' : c == wanted;
  });
}

/// Refuses shards of one set of which some are absent and no index says so.
void refuse_incomplete_set(const ModelStore& store, const std::vector<std::string>& files) {
  constexpr std::size_t kTail = 27;  // of -ddddd-of-ddddd.safetensors
  const std::string& first = files.front();
  const bool one_set = std::all_of(files.begin(), files.end(), [&](const std::string& name) {
    return is_shard_name(name) && name.size() == first.size() &&
           name.substr(0, name.size() - kTail) == first.substr(0, first.size() - kTail) &&
           name.substr(name.size() - 21) == first.substr(first.size() - 21);
  });
  if (one_set) {
    throw FormatError(
        "E-SHARD-SET", printable(store.location({})),
        fmt::format("{} of the shards are here ({}), the others and {} are absent: fetch them, or "
                    "give one file",
                    files.size(), join_names(files), kCanonicalIndex));
  }
}

/// Whether `files` are exactly PREFIX-00001-of-N.safetensors to PREFIX-N-of-N.safetensors.
bool is_complete_set(const std::vector<std::string>& files) {
  const std::string tail = fmt::format("-of-{:05}{}", files.size(), kSafetensorsFileSuffix);
  const std::string& first = files.front();
  const std::string first_tail = "-00001" + tail;
  if (files.size() < 2 || !first.ends_with(first_tail)) {
    return false;
  }
  const std::string prefix = first.substr(0, first.size() - first_tail.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] != fmt::format("{}-{:05}{}", prefix, i + 1, tail)) {
      return false;
    }
  }
  return true;
}
}  // namespace

void open_safetensors_file(Shard shard, ModelFiles& model) {
  model.format = ContainerFormat::kSafetensors;
  const std::string path = shard.path;
  append_safetensors_file(read_safetensors_header_of(std::move(shard), {}), model);
  if (is_shard_name(model.shards.front().file_name)) {
    model.warnings.push_back({"W-SHARD-ALONE", fmt::format("{} is one shard of a model: give the "
                                                           "folder for the whole",
                                                           printable(path))});
  }
}

void open_safetensors_folder(ModelStore& store, const FolderListing& listing,
                             const OpenOptions& options, ModelFiles& model) {
  model.format = ContainerFormat::kSafetensors;
  const auto& indexes = listing.indexes;
  if (std::find(indexes.begin(), indexes.end(), kCanonicalIndex) != indexes.end()) {
    return open_indexed(store, kCanonicalIndex, listing, options, model);
  }
  if (indexes.size() > 1) {
    throw_several_models(store, indexes);
  }
  if (indexes.size() == 1) {
    return open_indexed(store, indexes.front(), listing, options, model);
  }
  std::vector<std::string> models = listing.safetensors;
  std::copy(listing.gguf.begin(), listing.gguf.end(), std::back_inserter(models));
  const bool set = listing.gguf.empty() && is_complete_set(models);
  if (!set) {
    refuse_incomplete_set(store, models);
  }
  if (models.size() > 1 && !set) {
    throw_several_models(store, models);
  }
  append_all(store, models, 0, options, model);
  if (set) {
    const std::vector<std::string_view> names = tensor_names(model);
    refuse_doubled_tensors(model, NameIndex(names));
    model.warnings.push_back(
        {"W-INDEX-MISSING", fmt::format("no {}: the {} shards are put together by their names",
                                        kCanonicalIndex, models.size())});
  }
}

namespace {

/// A configuration. Of one with more values than any model has, the rest is checked and
/// not kept: a tree of 16 MB of brackets would exceed what a refusal may use.
JsonValue read_json(const std::unique_ptr<ByteSource>& source, const std::string& path,
                    ModelFiles& model) {
  model.side_files.push_back(path);
  refuse_other_than_json(*source);
  JsonLimits limits;
  limits.kept_values = 1'000'000;
  limits.non_finite_numbers = true;  // a key that is used must be finite all the same
  if (source->size() > limits.bytes) {
    throw FormatError("E-JSON-SIZE", source->name(),
                      fmt::format("more than {} bytes of JSON", limits.bytes));
  }
  bool cut = false;
  JsonValue value = parse_json(whole_text(*source), source->name(), limits, 0, &cut);
  if (value.as_object() == nullptr) {
    model.warnings.push_back(
        {"W-CONFIG-KIND",
         fmt::format("{}: no JSON object, so nothing of it is used", source->name())});
  }
  if (cut) {
    model.warnings.push_back(
        {"W-CONFIG-LONG", fmt::format("{}: more than {} values, what follows them is not used",
                                      source->name(), limits.kept_values)});
  }
  return value;
}

}  // namespace

void read_config(ModelStore& store, const std::string& stem, const OpenOptions& options,
                 ModelFiles& model) {
  const auto read = [&](const std::string& name) {
    require_member(store, name);
    return read_json(store.open(name), store.location(name), model);
  };
  if (!options.model_config.empty()) {
    const std::string& given = options.model_config;
    model.config =
        read_json(open_input(given, options.stop), local_path(given).value_or(given), model);
  } else {
    for (const std::string& name : {std::string("config.json"), stem + ".config.json"}) {
      if (member_is_listed(store, name)) {
        model.config = read(name);
        break;
      }
    }
  }
  if (member_is_listed(store, "hf_quant_config.json")) {
    model.quantisation = read("hf_quant_config.json");
  }
  const bool factors = std::any_of(
      model.tensors.begin(), model.tensors.end(),
      [](const StoredTensor& tensor) { return tensor.name.find(".lora_") != std::string::npos; });
  if (factors && member_is_listed(store, "adapter_config.json")) {
    model.adapter = read("adapter_config.json");
  }
}

}  // namespace vindex::input
