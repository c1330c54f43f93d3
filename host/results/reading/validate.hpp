// Owns whether a file is what its kind promises.
#pragma once

#include <string>
#include <vector>

namespace vindex::results {

/// Checks `path` against the schema; returns what is wrong, one line each (empty: valid).
/// Errors: MissingInputError, FormatError where it is no HDF5 file or of a newer major version.
std::vector<std::string> validate_file(const std::string& path);

}  // namespace vindex::results
