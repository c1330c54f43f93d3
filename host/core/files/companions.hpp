// Owns where files lie that belong to this program or library and are loaded when they are first
// wanted: modules of its own, and libraries that a package carries along (docs/library/library.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vindex {

/// Where the companion `name` may lie, first place first: beside the library that this code is part
/// of, in lib/vindex below the folder above it (installations, apps/ of a build) or below the one
/// above that (tests and host/ of a build); then the same of the program. Nothing is looked up:
/// most of them are not there.
std::vector<std::string> companion_places(std::string_view name);

/// The first of them that can be read; empty: none.
std::string find_companion(std::string_view name);

}  // namespace vindex
