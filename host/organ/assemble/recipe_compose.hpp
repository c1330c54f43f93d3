// Owns making the model that a recipe describes.
#pragma once

#include "assemble_settings.hpp"

namespace vindex::organ {

/// Errors: those of read_recipe(), Stack, open_gguf(), compose(); ConfigurationError (78)
/// E-RECIPE-ARCHITECTURE for donors of another one, E-RECIPE-TENSORS listing what a rule cannot
/// take, E-RECIPE-RULE for a rule that covers nothing.
void assemble_recipe(const AssembleSettings& settings, AssembleReport& report);

}  // namespace vindex::organ
