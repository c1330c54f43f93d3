// Owns the question what lies at a path. What the system cannot determine is an error and never
// "nothing there": a disk that fails must not look like a missing model or a free output.
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

}  // namespace vindex
