// Owns the safetensors container: its header, read and validated. Byte layout:
//   header length N u64 little-endian | N bytes of JSON, first byte '{', may end in spaces | data
//   JSON: { tensor name: {"dtype": string, "shape": [u64...], "data_offsets": [begin, end)},
//           optionally "__metadata__": {string: string} }; offsets count from the data's first
//           byte
// Sorted by offset the tensors tile the data exactly: no hole, no overlap, no byte left over.
// Source: huggingface/safetensors, README "Format" and safetensors/src/tensor.rs.
#pragma once

#include "decode/encoding/element_type.hpp"
#include "input/local/file_source.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::input {

struct SafetensorsTensor {
  std::string name;
  decode::ElementType type = decode::ElementType::kF32;
  std::vector<std::int64_t> shape;  ///< outermost first; may be empty or hold 0
  std::uint64_t offset = 0;         ///< absolute in the file
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_offset = 0;           ///< absolute start of the data
  std::vector<SafetensorsTensor> tensors;  ///< by file offset
  std::string header_sha256;               ///< of bytes [0, data_offset)
};

/// Reads and validates the header. Nothing is built before the whole header is known to be valid:
/// a refusal needs the text (at most 100 MB) and some 60 bytes per tensor. Errors: FormatError
/// E-ST-* and E-JSON-* naming file and byte offset. `ask_for_room`, where given, is called with the
/// header's length before memory is taken for it.
SafetensorsHeader read_safetensors_header(
    ByteSource& source, const std::function<void(std::uint64_t bytes)>& ask_for_room = {});

/// Names and texts of __metadata__, in order.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

/// Of a file whose header has been read. Errors: FormatError E-JSON-*.
SafetensorsMetadata read_safetensors_metadata(ByteSource& source);

}  // namespace vindex::input
