// libFuzzer's hook: mostly whole fields of a GGUF file, sometimes bytes; of a file of another
// format, which a target may take too, bytes alone.
#include "gguf_mutator.hpp"

#include <cstring>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned int seed) {
  std::mt19937_64 random(seed);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.starts_with("GGUF") || random() % 8 == 0) {
    return LLVMFuzzerMutate(data, size, most);
  }
  const std::string out = vindex::fuzz::mutated_gguf(bytes, random, most);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
