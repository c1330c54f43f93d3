// Owns the export `phase-json`: a folder of documents, one for each phase.
#pragma once

#include "export_input.hpp"
#include "phase_inputs.hpp"

#include <string>

namespace vindex::report {

/// `input` at `path`; checks what is in the way before it writes.
void export_phase_json(ExportInput& input, const std::string& path, const PhaseInputs& others,
                       const std::string& folder, bool replace);

}  // namespace vindex::report
