// Owns the refusal to join files of different models in one export.
#pragma once

#include "export_phase_weights.hpp"
#include "phase_sources.hpp"

#include <map>
#include <string>

namespace vindex::report {

/// Refuses files of different models: ConfigurationError E-EXPORT-MODEL (78). Gives what was
/// compared: "files" (the bytes that were measured), "shapes" (layers, widths, experts), or "none"
/// (one file, or nothing that both say).
std::string require_same_model(const std::map<std::string, std::string>& paths,
                               const PhaseSources& sources, const Layers& layers);

}  // namespace vindex::report
