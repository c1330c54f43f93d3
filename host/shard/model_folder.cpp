#include "model_folder.hpp"

#include "shard_list.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>

namespace vindex::shard {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kLongestFileName = 255;  // of every file system of Linux

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [name](std::string_view suffix) { return name.ends_with(suffix); });
}

/// In a Hugging Face cache, `snapshots/<revision>/<file>` links to `blobs/<hash>` of the same
/// repository folder `models--<organisation>--<name>`.
bool is_cache_blob(const fs::path& folder, const fs::path& target) {
  const fs::path blobs = target.parent_path();
  if (blobs.filename() != "blobs") {
    return false;
  }
  const bool same_repository = folder.parent_path().filename() == "snapshots" &&
                               folder.parent_path().parent_path() == blobs.parent_path();
  return same_repository || blobs.parent_path().filename().string().starts_with("models--");
}

bool is_inside(const fs::path& folder, const fs::path& target) {
  const auto [mismatch, unused] =
      std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  return mismatch == folder.end();
}
}  // namespace

FolderListing list_folder(const std::string& folder) {
  FolderListing listing;
  std::error_code error;
  fs::directory_iterator member(folder, error);
  while (!error && member != fs::directory_iterator()) {
    const std::string name = member->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && name.ends_with(".safetensors.index.json")) {
      listing.indexes.push_back(name);  // a folder of this name too: it is refused, not passed over
    } else if (!name.starts_with('.') &&
               (member->is_symlink(ignored) || !member->is_directory(ignored))) {
      // A link to a folder too: whoever made it meant a file, and is told when it is opened.
      if (name.ends_with(".safetensors")) {
        listing.safetensors.push_back(name);
      } else if (name.ends_with(".gguf")) {
        listing.gguf.push_back(name);
      } else if (ends_with_any(name, {".bin", ".pt", ".pth", ".ckpt", ".pkl"})) {
        listing.pickles.push_back(name);
      }
    }
    member.increment(error);
  }
  if (error) {
    throw SystemError("E-FOLDER-READ", error.value(),
                      fmt::format("cannot list {}", printable(folder)));
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

bool member_exists(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / name, ignored);
}

bool member_is_listed(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  return fs::symlink_status(fs::path(folder) / name, ignored).type() != fs::file_type::not_found;
}

namespace {
[[noreturn]] void throw_absent(const std::string& folder, std::string_view name) {
  std::error_code none;
  const fs::path target =
      name.size() > kLongestFileName ? fs::path() : fs::read_symlink(fs::path(folder) / name, none);
  throw MissingInputError(
      "E-SHARD-MISSING",
      target.empty() ? fmt::format("{} is named by the model and absent from {}: fetch it",
                                   excerpt(name), printable(folder))
                     : fmt::format("{} in {} is a link to {}, where no file is: fetch it",
                                   excerpt(name), printable(folder), excerpt(target.string())));
}
}  // namespace

std::string member_path(const std::string& folder, std::string_view name) {
  if (name.size() > kLongestFileName) {
    throw_absent(folder, name);  // before any path is built: the name may have 100 MB
  }
  const fs::path path = fs::path(folder) / name;
  std::error_code error;
  (void)fs::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
      error == std::errc::too_many_symbolic_link_levels || error == std::errc::filename_too_long) {
    throw_absent(folder, name);
  }
  if (error) {
    throw SystemError("E-OPEN", error.value(),
                      fmt::format("cannot resolve {}", printable(path.string())));
  }
  return path.string();
}

std::string foreign_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) {
    return std::string();
  }
  const fs::path target = fs::canonical(path, error);
  const fs::path parent = fs::path(path).parent_path();
  const fs::path home = error ? fs::path() : fs::canonical(parent.empty() ? "." : parent, error);
  if (error || is_inside(home, target) || is_cache_blob(home, target)) {
    return std::string();
  }
  return target.parent_path().string();
}

std::string snapshot_of_cache(const std::string& folder) {
  std::error_code ignored;
  const fs::path root = fs::canonical(folder, ignored);
  const fs::path snapshots = root / "snapshots";
  if (!root.filename().string().starts_with("models--") || !fs::is_directory(snapshots, ignored)) {
    return std::string();
  }
  std::vector<std::string> revisions;
  std::error_code error;
  fs::directory_iterator member(snapshots, error);
  while (!error && member != fs::directory_iterator()) {
    if (member->is_directory(ignored)) {
      revisions.push_back(member->path().filename().string());
    }
    member.increment(error);
  }
  if (error) {
    throw SystemError("E-FOLDER-READ", error.value(),
                      fmt::format("cannot list {}", printable(snapshots.string())));
  }
  std::sort(revisions.begin(), revisions.end());
  const fs::path given = fs::path(folder) / "snapshots";
  if (revisions.empty()) {
    throw MissingInputError("E-FOLDER-EMPTY",
                            fmt::format("{}: a folder of the Hugging Face cache without a "
                                        "snapshot: fetch the model",
                                        printable(folder)));
  }
  if (revisions.size() > 1) {
    throw FormatError("E-FOLDER-SEVERAL", printable(given.string()),
                      fmt::format("several snapshots lie here, give the folder of one of them: {}",
                                  join_names(revisions)));
  }
  return (given / revisions.front()).string();
}

}  // namespace vindex::shard
