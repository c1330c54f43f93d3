// Owns the question what lies at a path. What the system cannot tell is an error and never "nothing
// there": a disk that fails must not look like a missing model or a free output.
#pragma once

#include <cstdint>
#include <string>

namespace vindex {

enum class PathKind : std::uint8_t { kAbsent, kFolder, kFile, kOther };

/// Links are followed; one that leads nowhere or in a circle is absent, as is what cannot be a
/// path. Errors: SystemError E-OPEN (77 without permission to look there, else 74).
PathKind path_kind(const std::string& path);

inline bool is_folder(const std::string& path) { return path_kind(path) == PathKind::kFolder; }

/// Whether both paths lead to one file. Errors: as path_kind().
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace vindex
