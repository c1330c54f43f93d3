// Owns what an opened model says of itself, and reading its tensors.
#include "gguf_source.hpp"

#include "organ_class.hpp"
#include "organ_source.hpp"

#include "core/files/path_kind.hpp"
#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace vindex::organ {

GgufSource::GgufSource(GgufParts parts) : parts_(std::move(parts)) {
  expects(!parts_.splits.empty(), "GgufSource: a model has the keys of one file at least");
  places_.reserve(parts_.tensors.size());
  for (std::size_t i = 0; i < parts_.tensors.size(); ++i) {
    if (!places_.emplace(parts_.tensors[i].name, i).second) {
      throw FormatError("E-TENSOR-TWICE", printable(parts_.path),
                        fmt::format("tensor \"{}\" is there twice: files of different models",
                                    excerpt(parts_.tensors[i].name)));
    }
  }
}

std::optional<std::string> GgufSource::text(std::string_view name) const {
  const std::string* const value = gguf::find_text(keys(), name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::uint64_t> GgufSource::number(std::string_view name) const {
  const gguf::Key* found = key(name);
  if (found == nullptr || found->type == gguf::ValueType::kArray) {
    return std::nullopt;
  }
  if (const auto* value = std::get_if<std::uint64_t>(&found->value)) {
    return *value;
  }
  const auto* value = std::get_if<std::int64_t>(&found->value);
  return value == nullptr || *value < 0 ? std::nullopt
                                        : std::optional(static_cast<std::uint64_t>(*value));
}

std::string GgufSource::architecture() const {
  return text("general.architecture").value_or(std::string());
}

std::uint64_t GgufSource::block_count() const {
  if (const auto count = number(architecture() + ".block_count")) {
    return *count;
  }
  std::int32_t highest = -1;
  for (const OrganTensor& tensor : tensors()) {
    highest = std::max(highest, classify(tensor.name).block);
  }
  return static_cast<std::uint64_t>(highest + 1);
}

std::optional<std::size_t> GgufSource::find(std::string_view tensor) const {
  const auto found = places_.find(tensor);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

void GgufSource::read(const OrganTensor& tensor, std::uint64_t offset,
                      std::span<std::byte> into) const {
  const auto end = checked_add(offset, into.size());
  expects(end && *end <= tensor.bytes, "GgufSource::read: a range within the tensor");
  files()[tensor.file].source->read(tensor.offset + offset, into);
}

std::shared_ptr<ByteSource> GgufSource::opened(std::size_t file) const {
  ByteSource* source = files()[file].source.get();
  if (auto* organ = dynamic_cast<OrganSource*>(source)) {
    return organ->opened();
  }
  return {std::shared_ptr<void>(), source};  // open as long as this is
}

std::vector<std::string> GgufSource::input_paths() const {
  std::vector<std::string> paths = parts_.side_files;
  if (parts_.from_manifest && !paths.empty()) {
    paths.push_back(folder_of(paths.front()));  // a folder of organs holds them and nothing else
  }
  for (const input::Shard& file : files()) {
    paths.push_back(file.path);
  }
  for (const GgufSplit& split : splits()) {
    if (!split.path.empty()) {
      paths.push_back(split.path);
    }
  }
  return paths;
}

gguf::KeySection GgufSource::copy_keys(std::size_t split,
                                       const std::function<bool(const gguf::Key&)>& wanted) const {
  const GgufSplit& from = splits().at(split);
  gguf::KeySection keys;
  for (const gguf::Key& each : from.header.keys) {
    if (!wanted || wanted(each)) {
      keys.copy(each, from.header, *from.source);
    }
  }
  return keys;
}

void GgufSource::require_unchanged() const {
  for (const input::Shard& file : files()) {
    input::require_unchanged(file);
  }
}

}  // namespace vindex::organ
