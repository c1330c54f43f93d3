// Owns adding parents, and changing or dropping what no longer holds.
#include "provenance.hpp"

#include "organ_file.hpp"

#include "gguf/values/encoded_value.hpp"
#include "gguf/values/value.hpp"
#include "organ/source/file_type.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace vindex::organ {
namespace {

constexpr std::string_view kBaseModel = "general.base_model.";
constexpr std::string_view kTags = "general.tags";
constexpr std::string_view kHistory = "organ.history";

/// What of a parent says where it comes from, under the same names.
constexpr std::array<std::string_view, 6> kOrigin = {"author", "version", "organization",
                                                     "url",    "uuid",    "repo_url"};

std::vector<std::string> strings_of(const GgufSource& model, std::string_view name) {
  const gguf::Key* key = model.key(name);
  if (key == nullptr || key->type != gguf::ValueType::kArray ||
      key->element_type != gguf::ValueType::kString) {
    return {};
  }
  const GgufSplit& split = model.splits().front();
  const std::vector<std::byte> value = gguf::encoded_value(*key, split.header, *split.source);
  return gguf::read_strings(gguf::read_array(value));
}

bool is_quantised(decode::ElementType type) {
  const decode::ElementTypeRow& row = decode::element_type_row(type);
  return row.ggml_id >= 0 && row.block_elements > 1;
}

void add_parents(const Provenance& provenance, gguf::KeySection& keys) {
  keys.add<std::uint32_t>("general.base_model.count",
                          static_cast<std::uint32_t>(provenance.parents.size()));
  for (std::size_t i = 0; i < provenance.parents.size(); ++i) {
    const GgufSource& parent = *provenance.parents[i];
    const std::string prefix = fmt::format("{}{}.", kBaseModel, i);
    keys.add_string(prefix + "name",
                    parent.text("general.name").value_or(parent.splits().front().file_name));
    for (const std::string_view what : kOrigin) {
      auto value = parent.text(fmt::format("general.{}", what));
      if (!value) {
        value = parent.text(fmt::format("general.source.{}", what));
      }
      if (value) {
        keys.add_string(prefix + std::string(what), *value);
      }
    }
  }
}

/// What is written anew, or does not hold any more.
bool is_replaced(std::string_view name, const Provenance& provenance) {
  return is_split_key(name) || name.starts_with(kBaseModel) || name == kTags || name == kHistory ||
         name == "organ.version" || name == "general.uuid" ||
         (provenance.values_changed && name.starts_with("quantize.imatrix.")) ||
         (!provenance.name.empty() && name == "general.name");
}

}  // namespace

std::optional<std::uint32_t> majority_file_type(std::span<const ComposedTensor> tensors) {
  TypeShares shares;
  for (const ComposedTensor& tensor : tensors) {
    shares.add(tensor.layout.type, tensor.layout.dimensions);
  }
  return shares.file_type();
}

gguf::KeySection changed_keys(
    const GgufSource& host, std::span<const ComposedTensor> tensors, const Provenance& provenance,
    const std::function<bool(const gguf::Key&, gguf::KeySection&)>& edit) {
  const GgufSplit& split = host.splits().front();
  TypeShares shares;
  bool quantised = false;
  for (const ComposedTensor& tensor : tensors) {
    shares.add(tensor.layout.type, tensor.layout.dimensions);
    quantised = quantised || is_quantised(tensor.layout.type);
  }
  gguf::KeySection keys;
  for (const gguf::Key& key : host.keys()) {
    if (is_replaced(key.name, provenance) || (edit && edit(key, keys))) {
      continue;
    }
    const auto* file_type = std::get_if<std::uint64_t>(&key.value);
    const auto majority = shares.file_type();
    if (key.name == "general.file_type" && key.type == gguf::ValueType::kU32 &&
        file_type != nullptr && majority && !shares.agrees(*file_type)) {
      keys.add<std::uint32_t>(key.name, *majority);
      continue;
    }
    keys.copy(key, split.header, *split.source);
  }
  if (!provenance.name.empty()) {
    keys.add_string("general.name", provenance.name);
  }
  if (quantised && host.key("general.quantization_version") == nullptr) {
    keys.add<std::uint32_t>("general.quantization_version", kQuantizationVersion);
  }
  add_parents(provenance, keys);
  std::vector<std::string> tags = strings_of(host, kTags);
  if (provenance.parents.size() > 1 && std::find(tags.begin(), tags.end(), "merge") == tags.end()) {
    tags.emplace_back("merge");
  }
  if (!tags.empty()) {
    keys.add_strings(kTags, tags);
  }
  keys.add<std::uint32_t>("organ.version", kOrganVersion);
  std::vector<std::string> history = strings_of(host, kHistory);
  history.push_back(provenance.history);
  keys.add_strings(kHistory, history);
  return keys;
}

}  // namespace vindex::organ
