// Owns what a model's folder holds and which of its members may be opened: plain names that stay
// inside it, where a link may lead into the blobs of a Hugging Face cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vindex::shard {

/// Members of a folder by kind, each list sorted. Hidden files are left out.
struct FolderListing {
  std::vector<std::string> safetensors;
  std::vector<std::string> indexes;  ///< *.safetensors.index.json
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

/// Path of `name` in `folder`. Errors: MissingInputError E-SHARD-MISSING; FormatError
/// E-LINK-OUTSIDE for a link that leaves the folder for anything but a Hugging Face cache's blobs.
std::string member_path(const std::string& folder, std::string_view name);

}  // namespace vindex::shard
