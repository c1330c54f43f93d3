// Owns what the members of a store mean for a model: which of them are containers, indexes or
// pickles, and that what a model names is there before anything of it is read.
#pragma once

#include "model_store.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace vindex::input {

/// Members of a store by kind, each list sorted. Hidden files are left out.
struct FolderListing {
  std::vector<std::string> safetensors;  ///< links to folders among them: opening them says so
  std::vector<std::string> indexes;      ///< *.safetensors.index.json
  std::vector<std::string> gguf;
  std::vector<std::string> pickles;  ///< *.bin, *.pt, *.pth, *.ckpt, *.pkl
};

/// Errors: those of ModelStore::list().
FolderListing list_folder(ModelStore& store);

/// Whether `name` names a member of a folder and nothing else: not empty, no separator, neither "."
/// nor "..", no NUL.
bool is_plain_name(std::string_view name);

/// Whether opening it may succeed: false for a link to nothing.
bool member_exists(ModelStore& store, std::string_view name);

/// Whether there is an entry of this name, a link to nothing included: what is there and cannot be
/// read is an error, not an absence.
bool member_is_listed(ModelStore& store, std::string_view name);

/// Throws MissingInputError E-FOLDER-EMPTY: the folder has none of `what` ("no *.gguf").
[[noreturn]] void throw_empty_folder(const ModelStore& store, const char* what);

/// Errors: MissingInputError E-SHARD-MISSING where `name` is absent, also for a link to nothing or
/// in a circle, which names its target.
void require_member(ModelStore& store, std::string_view name);

}  // namespace vindex::input
