// Owns the judgement of the weights themselves.
#pragma once

#include "lint_file.hpp"

#include <cstdint>
#include <stop_token>
#include <vector>

namespace vindex::organ {

/// Decodes every tensor. `threads`: 0 by the machine; where `stop` is requested the rest is left.
void lint_values(const std::vector<LintFile>& files, std::int32_t threads,
                 const std::stop_token& stop, Findings& findings, VerifyReport& report);

}  // namespace vindex::organ
