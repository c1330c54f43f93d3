// Owns the rule that the files of a GGUF set tell of one model.
#pragma once

#include <vindex/gguf/header.hpp>
#include <vindex/shard/byte_source.hpp>

namespace vindex::shard {

/// A later file of a set repeats keys of the first or has none but its own (`split.*`,
/// `general.alignment`): what else it said of the model would be passed over in silence. Errors:
/// FormatError E-SPLIT-MIXED naming the file, the key and both values.
void require_same_metadata(const gguf::Header& first, ByteSource& first_source,
                           const gguf::Header& later, ByteSource& later_source);

}  // namespace vindex::shard
