// Owns opening one file or a set, names of splits, and checks across members.
#include "gguf_set.hpp"

#include "split_metadata.hpp"

#include "core/text/text_parts.hpp"
#include "gguf/read_header.hpp"
#include "gguf/swapped_source.hpp"
#include "input/header_window.hpp"
#include "input/local/file_kind.hpp"
#include "input/model_folder.hpp"
#include "input/shard_list.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace vindex::input {

namespace {
constexpr std::string_view kGgufSuffix = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kDigits = 5;

std::optional<std::uint64_t> five_digits(std::string_view text) {
  return text.size() == kDigits ? whole_number<std::uint64_t>(text) : std::nullopt;
}

std::optional<std::uint64_t> split_key(const gguf::Header& header, const char* name,
                                       const std::string& where) {
  const gguf::Key* key = find_key(header.keys, name);
  if (key == nullptr) {
    return std::nullopt;
  }
  if (const auto* value = std::get_if<std::uint64_t>(&key->value);
      value != nullptr && key->type != gguf::ValueType::kArray &&
      key->type != gguf::ValueType::kBool) {
    return *value;
  }
  if (const auto* value = std::get_if<std::int64_t>(&key->value); value != nullptr && *value >= 0) {
    return static_cast<std::uint64_t>(*value);
  }
  throw FormatError("E-SPLIT-KEYS", fmt::format("{} at byte {}", where, key->value_offset),
                    fmt::format("{} is not a count", name));
}

std::string text_of(const gguf::Header& header, const char* name) {
  const std::string* const text = gguf::find_text(header.keys, name);
  return text == nullptr ? std::string() : *text;
}

constexpr const char* kAdapter = "an adapter (LoRA)";

/// What a GGUF file is if it holds no language model: empty for models.
std::string companion_kind(const gguf::Header& header) {
  const std::string type = text_of(header, "general.type");
  const std::string architecture = text_of(header, "general.architecture");
  if (type == "imatrix" || architecture == "imatrix") {
    return "an importance matrix (imatrix)";
  }
  if (type == "adapter") {
    return kAdapter;
  }
  if (type == "mmproj" || type == "projector" || architecture == "clip") {
    return "a multimodal projector (mmproj)";
  }
  if (architecture == "controlvector") {
    return "a control vector";
  }
  return std::string();
}

void refuse_companion(const gguf::Header& header, const std::string& name, bool adapter_wanted) {
  const std::string kind = companion_kind(header);
  const bool adapter = kind == kAdapter;
  if (!kind.empty() && !(adapter && adapter_wanted)) {
    throw FormatError("E-GGUF-KIND", name,
                      fmt::format("this is {}, not a model: give the model's own file{}", kind,
                                  adapter ? ", or --lora to measure what it adds" : ""));
  }
}

GgufFile read_gguf_header_of(Shard shard, const AskForRoom& ask_for_room = {},
                             gguf::KeepTensors keep = gguf::KeepTensors::kAll) {
  GgufFile file;
  file.shard = std::move(shard);
  const std::string name = printable(file.shard.path);
  if (detect_container(*file.shard.source) != FileKind::kGguf) {
    throw FormatError("E-SPLIT-KIND", name, "is not a GGUF file, as its set is");
  }
  file.header = gguf::read_header(*file.shard.source, ask_for_room, keep);
  if (file.header.header_sha256.empty() &&
      split_key(file.header, "split.count", name).value_or(1) > 1) {
    // There are no matrices in this file, but there may be some in the others of its set.
    file.header = gguf::read_header(*file.shard.source, ask_for_room);
  }
  if (file.header.big_endian) {
    file.shard.source =
        gguf::make_swapped_source(std::move(file.shard.source), file.header.tensors);
  }
  file.shard.header_sha256 = file.header.header_sha256;
  file.number = split_key(file.header, "split.no", name);
  file.count = split_key(file.header, "split.count", name);
  file.tensors_total = split_key(file.header, "split.tensors.count", name);
  return file;
}

Shard open_member(ModelStore& store, const std::string& file) {
  require_member(store, file);
  return open_shard(store, file);
}

/// The last that is asked of a file's header: files of a set are compared before.
void append_gguf(GgufFile file, ModelFiles& model) {
  file.shard.source->header_is_read();
  const auto shard = static_cast<std::int32_t>(model.shards.size());
  std::vector<gguf::Tensor>& tensors = file.header.tensors;
  const auto before = [](const gguf::Tensor& a, const gguf::Tensor& b) {
    return a.offset < b.offset;
  };
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::stable_sort(tensors.begin(), tensors.end(), before);
  }
  if (model.tensors.empty()) {
    model.tensors.reserve(tensors.size());
  }
  for (gguf::Tensor& tensor : tensors) {
    StoredTensor stored;
    stored.name = std::move(tensor.name);
    stored.type = tensor.type;
    stored.shape.assign(tensor.dimensions.rbegin(), tensor.dimensions.rend());
    tensor.dimensions = {};  // so that a million of them do not lie here twice
    stored.shard = shard;
    stored.offset = tensor.offset;
    stored.bytes = tensor.bytes;
    model.tensors.push_back(std::move(stored));
  }
  if (shard == 0) {
    model.keys = std::move(file.header.keys);
    model.gguf_version = file.header.version;
    model.gguf_big_endian = file.header.big_endian;
  }
  std::move(file.header.warnings.begin(), file.header.warnings.end(),
            std::back_inserter(model.warnings));
  model.shards.push_back(std::move(file.shard));
}

void warn_of_surplus_keys(const GgufFile& file, std::vector<Warning>& warnings) {
  const std::string name = printable(file.shard.file_name);
  const auto split = parse_split_name(file.shard.file_name);
  if (file.count.value_or(1) > 1) {
    warnings.push_back({"W-SPLIT-LEFTOVER",
                        fmt::format("{}: keys say {} splits, but all {} tensors are in this file",
                                    name, *file.count, file.header.tensors.size())});
  } else if (file.count && split && split->count > 1) {
    warnings.push_back(
        {"W-SPLIT-COUNT", fmt::format("{}: split.count is {}, its name says {}: read alone", name,
                                      *file.count, split->count)});
  }
}

void check_member(const GgufFile& file, const GgufFile& first, std::uint64_t index) {
  const std::string name = printable(file.shard.path);
  if (!file.number || !file.count) {
    throw FormatError("E-SPLIT-KEYS", name,
                      "one of a split set by its name, without the keys split.no and split.count");
  }
  if (*file.number != index) {
    throw FormatError("E-SPLIT-NUMBER", name,
                      fmt::format("split.no is {}, its name says {}: misnumbered or doubled",
                                  *file.number, index));
  }
  if (file.count != first.count ||
      (file.tensors_total && first.tensors_total && file.tensors_total != first.tensors_total)) {
    throw FormatError("E-SPLIT-MIXED", name,
                      "split.count or split.tensors.count differ from the first split's: files of "
                      "different sets");
  }
  require_same_metadata(first.header, *first.shard.source, file.header, *file.shard.source);
}

/// `known` is the one of the set that has been opened: number `name.number`.
std::vector<GgufFile> read_set(ModelStore& store, const SplitName& name, GgufFile known,
                               std::int32_t threads) {
  std::vector<GgufFile> files(name.count);
  const std::size_t known_at = name.number - 1;
  files[known_at] = std::move(known);
  read_headers(
      files.size(), header_threads(store, threads),
      [&](std::size_t i, const AskForRoom& ask) {
        if (i != known_at) {
          const std::string file = name.file_name(i + 1);
          require_member(store, file);
          files[i] = read_gguf_header_of(open_shard(store, file), ask);
        }
      },
      [&](std::size_t i) { check_member(files[i], files.front(), i); });
  return files;
}

void check_total(const std::vector<GgufFile>& files) {
  std::uint64_t tensors = 0;
  for (const GgufFile& file : files) {
    tensors += file.header.tensors.size();
  }
  const auto total = files.front().tensors_total;
  if (!total || *total != tensors) {
    throw FormatError(
        "E-SPLIT-TENSORS", printable(files.front().shard.path),
        total ? fmt::format("split.tensors.count is {}, the set holds {}", *total, tensors)
              : std::string("no key split.tensors.count"));
  }
}

/// The first file of the set that is absent, or nothing.
std::optional<std::string> first_missing(ModelStore& store, const SplitName& name) {
  for (std::uint64_t i = 1; i <= name.count; ++i) {
    if (!member_exists(store, name.file_name(i))) {
      return name.file_name(i);
    }
  }
  return std::nullopt;
}
}  // namespace

std::string SplitName::file_name(std::uint64_t of_number) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, of_number, count);
}

std::optional<SplitName> parse_split_name(const std::string& file_name) {
  const std::size_t tail = 1 + kDigits + kOf.size() + kDigits + kGgufSuffix.size();
  if (file_name.size() <= tail || !file_name.ends_with(kGgufSuffix)) {
    return std::nullopt;
  }
  const std::string_view end = std::string_view(file_name).substr(file_name.size() - tail);
  const auto number = five_digits(end.substr(1, kDigits));
  const auto count = five_digits(end.substr(1 + kDigits + kOf.size(), kDigits));
  if (end.front() != '-' || end.substr(1 + kDigits, kOf.size()) != kOf || !number || !count ||
      *number == 0 || *number > *count) {
    return std::nullopt;
  }
  return SplitName{file_name.substr(0, file_name.size() - tail), *number, *count};
}

namespace {
/// `file` alone or its whole set, which is not yet judged as a whole.
std::vector<GgufFile> whole_set(ModelStore& store, GgufFile file, std::int32_t threads,
                                std::vector<Warning>& warnings) {
  const std::string path = printable(file.shard.path);
  const auto name = parse_split_name(file.shard.file_name);
  const std::uint64_t count = file.count.value_or(1);
  const bool complete = file.tensors_total && *file.tensors_total == file.header.tensor_count;
  const auto alone = [&] {
    warn_of_surplus_keys(file, warnings);
    std::vector<GgufFile> files;
    files.push_back(std::move(file));
    return files;
  };
  if (count <= 1) {
    if (name && name->count > 1 && !file.count) {
      throw FormatError("E-SPLIT-KEYS", path,
                        fmt::format("split {} of {} by its name, without the key split.count",
                                    name->number, name->count));
    }
    return alone();
  }
  if (!name || name->count != count) {
    if (complete) {
      return alone();
    }
    throw FormatError(
        "E-SPLIT-NAME", path,
        fmt::format("one of {} splits by its keys, but not named "
                    "PREFIX-00001-of-{:05}.gguf: restore the name and the other files",
                    count, count));
  }
  if (const auto missing = first_missing(store, *name)) {
    if (complete) {
      return alone();
    }
    throw FormatError("E-SPLIT-INCOMPLETE", path,
                      fmt::format("split {} of {}, and {} is absent: fetch the whole set",
                                  name->number, count, printable(*missing)));
  }
  if (file.header.tensors.size() < file.header.tensor_count) {
    file =
        read_gguf_header_of(open_shard(store, file.shard.file_name));  // its set may have matrices
  }
  return read_set(store, *name, std::move(file), threads);
}

/// The file of a folder's model, or of one of its files that are no model; others go to `others`.
std::string file_of_folder(ModelStore& store, const std::vector<std::string>& files,
                           std::vector<std::string>& others) {
  std::map<std::string, std::string> first_files;  // of each set
  for (const std::string& file : files) {
    const auto name = parse_split_name(file);
    first_files.emplace(name ? name->file_name(0) : file, file);
  }
  std::vector<std::string> models;
  for (const auto& [unused, file] : first_files) {
    bool companion = false;
    if (first_files.size() > 1) {
      try {
        companion = !companion_kind(read_gguf_header_of(open_member(store, file)).header).empty();
      } catch (const FormatError&) {
        companion = false;  // a damaged file may be the model: it is listed, not passed over
      }
    }
    (companion ? others : models).push_back(file);
  }
  if (models.size() > 1) {
    throw_several_models(store, models);
  }
  return models.empty() ? others.front() : models.front();
}
}  // namespace

void open_gguf_model(ModelStore& store, Shard shard, const OpenOptions& options,
                     ModelFiles& model) {
  model.format = ContainerFormat::kGguf;
  GgufFile file = read_gguf_header_of(
      std::move(shard), {},
      options.for_matrices ? gguf::KeepTensors::kIfMatrices : gguf::KeepTensors::kAll);
  refuse_companion(file.header, printable(file.shard.path), options.adapter);
  std::vector<GgufFile> files = whole_set(store, std::move(file), options.threads, model.warnings);
  if (files.size() > 1) {
    refuse_companion(files.front().header, printable(files.front().shard.path), options.adapter);
    check_total(files);
  } else if (files.front().header.tensors.size() < files.front().header.tensor_count) {
    throw_nothing_to_measure(model.path);
  }
  for (GgufFile& each : files) {
    append_gguf(std::move(each), model);
  }
  if (files.size() > 1) {
    const std::vector<std::string_view> names = tensor_names(model);
    refuse_doubled_tensors(model, NameIndex(names));
  }
}

void open_gguf_folder(ModelStore& store, const std::vector<std::string>& files,
                      const OpenOptions& options, ModelFiles& model) {
  std::vector<std::string> others;
  const std::string file = file_of_folder(store, files, others);
  open_gguf_model(store, open_member(store, file), options, model);
  warn_of_others(others, model);
}

std::vector<GgufFile> open_gguf_set(ModelStore& store, std::vector<Warning>& warnings) {
  std::string name = store.file();
  if (name.empty()) {
    const FolderListing listing = list_folder(store);
    if (listing.gguf.empty()) {
      throw_empty_folder(store, "no *.gguf");
    }
    std::vector<std::string> others;
    name = file_of_folder(store, listing.gguf, others);
  }
  Shard shard = open_shard(store, name);
  if (detect_container(*shard.source) != FileKind::kGguf) {
    throw FormatError("E-GGUF-MAGIC", printable(shard.path), "is not a GGUF file");
  }
  std::vector<GgufFile> files =
      whole_set(store, read_gguf_header_of(std::move(shard)), 0, warnings);
  if (files.size() > 1) {
    check_total(files);
  }
  for (GgufFile& file : files) {
    file.shard.source->header_is_read();
  }
  return files;
}

}  // namespace vindex::input
