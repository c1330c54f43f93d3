// Owns the question whether two paths name one file, whether it is there yet or not: two outputs of
// one command, or an output and an input, however they are spelt.
#pragma once

#include <string>

namespace vindex {

/// Whether writing to `a` is writing to `b`: one file (links followed, other names of it too), or
/// the same name in one folder where nothing is yet. Neither may be empty. Errors: as path_kind().
bool is_same_place(const std::string& a, const std::string& b);

/// Whether `path` names something within `folder`, or the folder itself. Errors: as path_kind().
bool is_within(const std::string& folder, const std::string& path);

}  // namespace vindex
