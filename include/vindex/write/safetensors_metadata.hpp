// Owns reading the __metadata__ of a safetensors file, in order: loaders look into them, so a file
// that is written again keeps them.
#pragma once

#include <vindex/shard/byte_source.hpp>
#include <vindex/write/safetensors_writer.hpp>

namespace vindex::write {

/// Of a file whose header was read before: a FormatError says that it changed since.
SafetensorsMetadata read_safetensors_metadata(shard::ByteSource& source);

}  // namespace vindex::write
