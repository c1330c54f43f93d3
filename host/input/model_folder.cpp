// Owns listing a folder by kinds, and requiring members.
#include "model_folder.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace vindex::input {

namespace {
bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [name](std::string_view suffix) { return name.ends_with(suffix); });
}
}  // namespace

FolderListing list_folder(ModelStore& store) {
  FolderListing listing;
  for (const StoreMember& member : store.list()) {
    const std::string& name = member.name;
    if (name.starts_with('.')) {
      continue;
    }
    if (name.ends_with(".safetensors.index.json")) {
      listing.indexes.push_back(name);  // a folder of this name too: it is refused, not passed over
    } else if (member.folder) {
      continue;
    } else if (name.ends_with(".safetensors")) {
      // A link to a folder too: whoever made it meant a file, and is told when it is opened.
      listing.safetensors.push_back(name);
    } else if (name.ends_with(".gguf")) {
      listing.gguf.push_back(name);
    } else if (ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt", ".pkl"})) {
      listing.pickles.push_back(name);
    }
  }
  for (auto* names : {&listing.safetensors, &listing.indexes, &listing.gguf, &listing.pickles}) {
    std::sort(names->begin(), names->end());
  }
  return listing;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

bool member_exists(ModelStore& store, std::string_view name) {
  return store.state(name).presence == MemberState::Presence::kPresent;
}

bool member_is_listed(ModelStore& store, std::string_view name) {
  return store.state(name).presence != MemberState::Presence::kAbsent;
}

void throw_empty_folder(const ModelStore& store, const char* what) {
  throw MissingInputError(
      "E-FOLDER-EMPTY", fmt::format("{}: {} in this folder", printable(store.location({})), what));
}

void require_member(ModelStore& store, std::string_view name) {
  const MemberState state = store.state(name);
  if (state.presence == MemberState::Presence::kPresent) {
    return;
  }
  const std::string folder = printable(store.location({}));
  throw MissingInputError("E-SHARD-MISSING",
                          state.link_target.empty()
                              ? fmt::format("{} is named by the model and absent from {}: fetch it",
                                            excerpt(name), folder)
                              : fmt::format("{} in {} is a link to {}, where no file is: fetch it",
                                            excerpt(name), folder, excerpt(state.link_target)));
}

}  // namespace vindex::input
