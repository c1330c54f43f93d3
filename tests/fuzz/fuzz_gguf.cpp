// Any bytes as a GGUF file: refused by this project's error, or every tensor lies inside.
#include <vindex/core/error.hpp>
#include <vindex/shard/gguf.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      vindex::shard::make_memory_source("fuzz", std::as_bytes(std::span(data, size)));
  try {
    const vindex::shard::GgufHeader header = vindex::shard::read_gguf_header(*source);
    for (const vindex::shard::GgufTensor& tensor : header.tensors) {
      if (tensor.bytes > 0 && (tensor.offset > size || tensor.bytes > size - tensor.offset)) {
        std::abort();
      }
    }
    for (const vindex::shard::GgufKey& key : header.keys) {
      if (key.value_offset > size || key.value_bytes > size - key.value_offset) {
        std::abort();
      }
    }
  } catch (const vindex::Error&) {
  }
  return 0;
}
