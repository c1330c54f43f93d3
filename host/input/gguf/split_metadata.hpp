// Owns comparing the keys of the files of a set, and which keys may differ.
#pragma once

#include "core/files/byte_source.hpp"
#include "gguf/header.hpp"

namespace vindex::input {

/// A later file of a set repeats keys of the first or has none but its own (`split.*`,
/// `general.alignment`): what else it said of the model would be passed over in silence. Errors:
/// FormatError E-SPLIT-MIXED naming the file, the key and both values.
void require_same_metadata(const gguf::Header& first, ByteSource& first_source,
                           const gguf::Header& later, ByteSource& later_source);

}  // namespace vindex::input
