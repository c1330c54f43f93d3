// Owns the questions what lies at a path and whether two paths, however they are spelt, name one
// file, there yet or not. What the system cannot determine is an error and never "nothing there": a
// disk that fails must not look like a missing model or a free output.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace vindex {

enum class PathKind : std::uint8_t { kAbsent, kFolder, kFile, kOther };

/// Links are followed; one that leads nowhere or in a circle is absent, as is what cannot be a
/// path. Errors: SystemError E-OPEN (77 without permission to look there, else 74).
PathKind path_kind(const std::string& path);

inline bool is_folder(const std::string& path) { return path_kind(path) == PathKind::kFolder; }

/// What one file is, whatever path or link leads to it.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  auto operator<=>(const FileIdentity&) const = default;
};

/// Of the file, folder or device that `path` leads to; nothing where it is absent. Errors: as
/// path_kind().
std::optional<FileIdentity> file_identity(const std::string& path);

/// Whether both paths lead to one file. Errors: as path_kind().
bool is_same_file(const std::string& a, const std::string& b);

/// Whether writing to `a` is writing to `b`: one file (links followed, other names of it too), or
/// the same name in one folder where nothing is yet. Neither may be empty. Errors: as path_kind().
bool is_same_place(const std::string& a, const std::string& b);

/// Whether `path` names something within `folder`, or the folder itself. Errors: as path_kind().
bool is_within(const std::string& folder, const std::string& path);

/// Folder of `path` ("." if it names none) and its last component.
std::string folder_of(const std::string& path);
std::string file_name_of(const std::string& path);

}  // namespace vindex
