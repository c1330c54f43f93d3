// Owns opening files, sets and extracted folders as one model for surgery.
#pragma once

#include "organ_folder.hpp"

#include "organ/source/gguf_source.hpp"

#include <memory>
#include <string>

namespace vindex::organ {

/// `path`: a GGUF file (a split stands for its set), a folder of one model, or a folder that was
/// extracted. Errors: those of input::open_gguf_set(); for an extracted folder FormatError
/// E-ORGAN-MANIFEST, -SCHEMA, -PATH, E-ORGAN-FILE naming an organ file that is not what the
/// manifest says, E-ORGAN-SOURCE a model that changed since; ConfigurationError
/// E-ORGAN-SAFETENSORS (78) for organs of a safetensors model.
std::unique_ptr<GgufSource> open_gguf(const std::string& path, const OpenGgufOptions& options = {});

}  // namespace vindex::organ
