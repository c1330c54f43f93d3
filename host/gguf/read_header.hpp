// Owns reading a header, alone or among others that are read at the same time.
#pragma once
#include "header.hpp"

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <functional>

namespace vindex::gguf {

/// Which tensors of a table are kept once they have been judged.
enum class KeepTensors : std::uint8_t {
  kAll,
  /// None where not one has two sides that are not zero: a million names need not be kept to say
  /// that there is nothing to measure. The digest of the header is empty then.
  kIfMatrices,
};

/// Reads and validates the header. Errors: FormatError naming file and byte offset.
Header read_header(ByteSource& source);

/// As read_header(source). `ask_for_room` is called, once the counts are known to be possible, with
/// the bytes that judging so many names takes at most.
Header read_header(ByteSource& source, const std::function<void(std::uint64_t bytes)>& ask_for_room,
                   KeepTensors keep = KeepTensors::kAll);

}  // namespace vindex::gguf
