// Owns the document of the export `phase-json` that joins all its files.
#pragma once

#include "export_phase_weights.hpp"
#include "phase_sources.hpp"

#include "core/json/json_document.hpp"

namespace vindex::report {

/// C1 to C5, each with what it was measured from.
Json phase1_aggregate_document(const PhaseSources& sources, const Layers& layers);

}  // namespace vindex::report
