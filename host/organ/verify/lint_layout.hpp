// Owns the judgement of how the data of a file lie.
#pragma once

#include "lint_file.hpp"

namespace vindex::organ {

/// Judges how the data lie.
void lint_layout(const LintFile& file, Findings& findings);

}  // namespace vindex::organ
