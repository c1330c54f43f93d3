// Owns opening a shard, doubled names, and warnings of other files beside.
#include "shard_list.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace vindex::input {

namespace {
constexpr std::size_t kNamesShown = 10;
}  // namespace

Shard open_shard(ModelStore& store, const std::string& name) {
  Shard shard;
  shard.file_name = name;
  shard.source = store.open(name);
  shard.path = store.location(name);  // a store that pins a revision knows it now
  shard.identity = shard.source->identity_at_opening();
  return shard;
}

std::vector<std::string_view> tensor_names(const ModelFiles& model) {
  std::vector<std::string_view> names;
  names.reserve(model.tensors.size());
  for (const StoredTensor& tensor : model.tensors) {
    names.emplace_back(tensor.name);
  }
  return names;
}

void refuse_doubled_tensors(const ModelFiles& model, const NameIndex& index) {
  if (const auto twice = index.duplicate()) {
    const StoredTensor& first = model.tensors[twice->first];
    const StoredTensor& second = model.tensors[twice->second];
    const auto file = [&](const StoredTensor& tensor) {
      return printable(model.shards[static_cast<std::size_t>(tensor.shard)].path);
    };
    throw FormatError("E-TENSOR-TWICE", file(second),
                      fmt::format("tensor \"{}\" is also in {}: files of different models or sets",
                                  printable(second.name.substr(0, 200)), file(first)));
  }
}

std::string join_names(const std::vector<std::string>& names) {
  std::string joined;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) {
    joined += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  if (names.size() > kNamesShown) {
    joined += fmt::format(" and {} more", names.size() - kNamesShown);
  }
  return joined;
}

void warn_of_links(ModelStore& store, ModelFiles& model) {
  std::map<std::string, std::vector<std::string>> links;  // files of each folder led to
  for (const Shard& shard : model.shards) {
    const std::string folder = store.state(shard.file_name).foreign_folder;
    if (!folder.empty()) {
      links[folder].push_back(shard.file_name);
    }
  }
  for (const auto& [folder, names] : links) {
    model.warnings.push_back(
        {"W-LINK-OUTSIDE",
         fmt::format("{}: {} to {}, outside the model's folder", join_names(names),
                     names.size() == 1 ? "a link" : "links", printable(folder))});
  }
}

void throw_several_models(const ModelStore& store, const std::vector<std::string>& models) {
  throw FormatError(
      "E-FOLDER-SEVERAL", printable(store.location({})),
      fmt::format("several models lie here, give one of them: {}", join_names(models)));
}

void warn_of_others(const std::vector<std::string>& others, ModelFiles& model) {
  if (!others.empty()) {
    model.warnings.push_back(
        {"W-FOLDER-OTHERS",
         fmt::format("not part of the model and not read: {}", join_names(others))});
  }
}

}  // namespace vindex::input
