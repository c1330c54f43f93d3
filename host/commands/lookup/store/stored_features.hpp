// Owns searching a file of gate vectors (gate_vector_layout.hpp) as a model is searched: its
// vectors are matrices of the file, and what their features write was found when it was made.
#pragma once

#include "commands/lookup/features/feature_source.hpp"

#include <memory>
#include <string>

namespace vindex::commands {

/// Whether the local file at `path` begins as HDF5 files do.
bool is_stored_features(const std::string& path);

/// Errors: those of ResultsReader; FormatError where the file is not as it is written, or not
/// complete.
std::unique_ptr<FeatureSource> open_stored_features(const std::string& path);

}  // namespace vindex::commands
