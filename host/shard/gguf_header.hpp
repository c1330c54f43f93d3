// Owns reading a GGUF header among others that are read at the same time.
#pragma once

#include "header_window.hpp"

#include <vindex/shard/gguf.hpp>

namespace vindex::shard {

/// As read_gguf_header(source). `ask_for_room` is called, once the counts are known to be possible,
/// with the bytes that judging so many names takes at most.
GgufHeader read_gguf_header(ByteSource& source, const AskForRoom& ask_for_room);

}  // namespace vindex::shard
