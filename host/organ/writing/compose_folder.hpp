// Owns writing a composed model as a folder of organs, as `vindex organ extract` would make one of
// the file that compose() writes: whoever takes folders gives folders, and no file of the whole
// model is made on the way.
#pragma once

#include "compose.hpp"

#include <cstdint>
#include <string>

namespace vindex::organ {

/// Whether the output of a command that changes `host` is a folder of organs: where it ends in '/'
/// or is a folder, or where the host is one and the name does not end in .gguf.
bool means_organ_folder(const std::string& output, const GgufSource& host);

/// Errors: UsageError E-ORGAN-SHARDS where `shard_bytes` is not 0: a folder has no splits; those of
/// OutputFolder for a folder that is there and has content. For who wants to know before working.
void require_free_organ_folder(const std::string& output, std::uint64_t shard_bytes);

/// What a manifest says besides.
struct ComposedFolder {
  std::string tool;                 ///< program and version
  std::uint64_t tensors_total = 0;  ///< of the model; more than the composition of a selection
  std::string selection = {};       ///< which, for a reader
};

/// Writes `composition`, which has one file, into the folder `target`, new or empty. The report
/// names the folder as its one file. Errors: those of write::OutputFolder; FormatError
/// E-ORGAN-DIGEST, SystemError E-INPUT-CHANGED as compose().
ComposeReport compose_folder(const Composition& composition, const std::string& target,
                             const ComposeOptions& options, const ComposedFolder& about);

}  // namespace vindex::organ
