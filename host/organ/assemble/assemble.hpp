// Owns putting a model together: from a folder that extract made (byte for byte the file or splits
// that it was taken from), or from several models by a recipe (docs/organs/organs.md).
#pragma once

#include "assemble_settings.hpp"

namespace vindex::organ {

/// Errors: ConfigurationError E-ORGAN-PARTIAL (78) for a folder that holds a selection,
/// E-ORGAN-SAFETENSORS (78) for organs of a safetensors model; FormatError E-ORGAN-DIGEST,
/// E-ORGAN-CHANGED, E-ORGAN-SOURCE naming what is not as the manifest says; those of read_recipe(),
/// open_gguf() and compose().
AssembleReport assemble(const AssembleSettings& settings);

}  // namespace vindex::organ
