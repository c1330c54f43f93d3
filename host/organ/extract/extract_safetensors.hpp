// Owns taking a safetensors model apart.
#pragma once

#include "extraction.hpp"

namespace vindex::organ {

/// What extract() does of a safetensors model.
void extract_safetensors(const ExtractSettings& settings, const OrganFilter& filter,
                         ExtractReport& report);

}  // namespace vindex::organ
