// Owns whether output may take the place of what lies under its name.
#pragma once

#include <span>
#include <string>

namespace vindex {

/// Throws OutputError `id` (73) where `path` is no name of a file, or what lies there is no regular
/// one: a rename would put a file in the place of a device or of a pipe that somebody reads.
void require_file_target(const std::string& path, const char* id = "E-OUTPUT-NOT-A-FILE");

/// Returns where nothing lies at `path`, or a regular file that `replace` allows to be replaced.
/// `flag`: what the user gives for that. Errors: those of require_file_target(); OutputError
/// E-OUTPUT-EXISTS for a file without `replace`; E-OUTPUT-RESULTS for an HDF5 file, with `replace`
/// too: measurements cost hours, a translation seconds.
void require_free_target(const std::string& path, bool replace, const char* flag = "--force");

/// Throws OutputError E-OUTPUT-SOURCE where one of `targets` is one of `inputs` or lies in a folder
/// that is one, whatever links and spellings lead to it. Empty paths are none.
void require_no_input(std::span<const std::string> targets, std::span<const std::string> inputs);

}  // namespace vindex
