// Any bytes as a safetensors file: refused by this project's error, or the tensors tile the data.
#include "input/safetensors/safetensors.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      vindex::input::make_memory_source("fuzz", std::as_bytes(std::span(data, size)));
  try {
    const auto header = vindex::input::read_safetensors_header(*source);
    std::uint64_t end = header.data_offset;
    for (const vindex::input::SafetensorsTensor& tensor : header.tensors) {
      if (tensor.offset != end) {
        std::abort();
      }
      end += tensor.bytes;
    }
    if (end != size) {
      std::abort();
    }
  } catch (const vindex::Error&) {
  }
  return 0;
}
