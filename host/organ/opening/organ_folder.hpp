// Owns opening a folder that was extracted as the model it was taken from.
#pragma once

#include "gguf/writing/key_section.hpp"
#include "input/local/file_source.hpp"
#include "organ/source/gguf_source.hpp"

#include <string>

namespace vindex::organ {

/// How open_gguf() takes a folder of organs.
struct OpenGgufOptions {
  /// Organ files of another type or shape than their manifest says, and models that changed since
  /// they were extracted by reference, are taken as they are now.
  bool accept_changed = false;
};

/// The one tensor, called `name`, of a GGUF organ file, whose header's digest is set. Errors:
/// FormatError E-ORGAN-FILE for another file; those of gguf::read_header().
gguf::Tensor only_tensor(input::Shard& file, const std::string& name);

/// Adds a split of `parts` that lies in no file: its keys, held in memory. `where` names it in
/// messages.
GgufSplit& add_split(const gguf::KeySection& keys, const std::string& file_name,
                     const std::string& where, GgufParts& parts);

/// Errors: those of read_manifest(); ConfigurationError E-ORGAN-SAFETENSORS (78) for organs of a
/// safetensors model; FormatError E-ORGAN-FILE naming the organ file that holds another tensor than
/// the manifest says, E-ORGAN-SOURCE naming the file that is not what was extracted by reference.
GgufParts parts_of_organ_folder(const std::string& path, const OpenGgufOptions& options);

}  // namespace vindex::organ
