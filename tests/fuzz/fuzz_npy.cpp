// Any bytes as a .npy file: refused by this project's error, or the array fills the file.
#include "input/npy/npy.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto source =
      vindex::input::make_memory_source("fuzz", std::as_bytes(std::span(data, size)));
  try {
    const auto header = vindex::input::read_npy_header(*source);
    if (header.offset > size || header.bytes != size - header.offset) {
      std::abort();
    }
    std::uint64_t count = 1;
    for (const std::int64_t side : header.shape) {
      if (side < 0) {
        std::abort();
      }
      count *= static_cast<std::uint64_t>(side);
    }
    if (vindex::decode::stored_bytes(header.type, count) != header.bytes) {
      std::abort();
    }
  } catch (const vindex::Error&) {
  }
  return 0;
}
