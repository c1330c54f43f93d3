// Owns the export `weightwatcher`.
#pragma once

#include "export_input.hpp"

#include <string>

namespace vindex::report {

void export_weightwatcher(ExportInput& input, const std::string& target);

}  // namespace vindex::report
