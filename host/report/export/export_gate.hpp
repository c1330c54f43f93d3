// Owns the export `gate-vectors`.
#pragma once

#include "export_input.hpp"

#include <string>

namespace vindex::report {

void export_gate_vectors(ExportInput& input, const std::string& folder);

}  // namespace vindex::report
