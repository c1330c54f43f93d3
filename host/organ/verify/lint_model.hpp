// Owns the judgement of keys and tensors as a model.
#pragma once

#include "lint_file.hpp"

#include <vector>

namespace vindex::organ {

/// Judges keys and tensors as a model.
void lint_model(const std::vector<LintFile>& files, Findings& findings);

}  // namespace vindex::organ
