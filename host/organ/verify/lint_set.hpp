// Owns the judgement of files as a set: split keys and names.
#pragma once

#include "lint_file.hpp"

#include <vector>

namespace vindex::organ {

/// Judges files as a set, split keys and names. `set`: they were found by one name.
void lint_set(const std::vector<LintFile>& files, Findings& findings);

}  // namespace vindex::organ
