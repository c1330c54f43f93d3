// Owns reading a manifest, which is untrusted.
#pragma once

#include "manifest.hpp"

#include <string>

namespace vindex::organ {

/// Whether `path` is a folder with a manifest, or a manifest. Errors: MissingInputError E-FILE-KIND
/// where what lies under that name in the folder is no file.
bool is_organ_folder(const std::string& path);
/// The folder that `path` (a folder or its manifest.json) means.
std::string organ_folder_of(const std::string& path);

/// Errors: FormatError E-ORGAN-MANIFEST naming what is wrong, E-ORGAN-PATH for a file that would
/// lie outside of the folder, E-ORGAN-SCHEMA for another schema; those of parse_json() and of
/// opening files.
Manifest read_manifest(const std::string& folder);

}  // namespace vindex::organ
