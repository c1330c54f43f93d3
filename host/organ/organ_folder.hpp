// Owns opening a folder that was extracted as the model it was taken from.
#pragma once

#include <vindex/organ/gguf_source.hpp>

#include <string>

namespace vindex::organ {

/// Errors: those of read_manifest(); ConfigurationError E-ORGAN-SAFETENSORS (78) for organs of a
/// safetensors model; FormatError E-ORGAN-FILE naming the organ file that holds another tensor than
/// the manifest says, E-ORGAN-SOURCE naming the file that is not what was extracted by reference.
GgufParts parts_of_organ_folder(const std::string& path, const OpenGgufOptions& options);

}  // namespace vindex::organ
