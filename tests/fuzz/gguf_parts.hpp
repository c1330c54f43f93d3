// Owns a GGUF file taken apart into its fields and put together again, any of them wrong. Its own
// reader, not the project's: the mutator must not refuse what the project refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::fuzz {

struct GgufParts {
  struct Key {
    std::string name;
    std::uint32_t type = 4;
    std::string value;  ///< as in the file
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dimensions;
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };

  std::uint32_t version = 3;
  bool big_endian = false;
  std::uint64_t alignment = 32;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::string data;
  /// Lies, in place of the true numbers.
  std::optional<std::uint64_t> tensor_count, key_count;
  std::optional<std::uint32_t> rank;    ///< of the first tensor
  std::optional<std::uint64_t> length;  ///< of the first key's name

  std::size_t length_bytes() const { return version == 1 ? 4 : 8; }
  std::string number(std::uint64_t value, std::size_t bytes) const;
  std::string text(const std::string& value) const;
  std::string bytes() const;
};

/// As much of `bytes` as makes sense.
GgufParts take_apart(const std::string& bytes);

}  // namespace vindex::fuzz
