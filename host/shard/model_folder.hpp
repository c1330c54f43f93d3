// Owns what a model's folder holds and which of its members may be opened: plain names, whose files
// may be links. In a Hugging Face cache they lead to its blobs; elsewhere it is worth a word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vindex::shard {

/// Members of a folder by kind, each list sorted. Hidden files are left out.
struct FolderListing {
  std::vector<std::string> safetensors;  ///< links to folders among them: opening them says so
  std::vector<std::string> indexes;      ///< *.safetensors.index.json
  std::vector<std::string> gguf;
  std::vector<std::string> pickles;  ///< *.bin, *.pt, *.pth, *.ckpt, *.pkl
};

/// Errors: SystemError where the folder cannot be read.
FolderListing list_folder(const std::string& folder);

/// Whether `name` names a member of a folder and nothing else: not empty, no separator, neither "."
/// nor "..", no NUL.
bool is_plain_name(std::string_view name);

/// Whether opening it may succeed: false for a link to nothing.
bool member_exists(const std::string& folder, const std::string& name);

/// Whether the folder has an entry of this name, a link to nothing included: what is there and
/// cannot be read is an error, not an absence.
bool member_is_listed(const std::string& folder, const std::string& name);

/// Path of `name` (plain) in `folder`. Errors: MissingInputError E-SHARD-MISSING, also for a link
/// to nothing or in a circle, which names its target.
std::string member_path(const std::string& folder, std::string_view name);

/// The folder that `path` leads to where it is a link out of its own folder and not into the blobs
/// of a Hugging Face cache; else empty.
std::string foreign_folder(const std::string& path);

/// Where `folder` is a repository of a Hugging Face cache (`models--<organisation>--<name>`), the
/// folder of its one snapshot; else empty. Errors: MissingInputError E-FOLDER-EMPTY without a
/// snapshot, FormatError E-FOLDER-SEVERAL listing several.
std::string snapshot_of_cache(const std::string& folder);

}  // namespace vindex::shard
