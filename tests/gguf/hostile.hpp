// Owns what the tests of hostile GGUF headers share: how a file is refused, and every container.
#pragma once
#include "gguf/read_header.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::gguf {

using testing::GgufBuilder;
using testing::small_gguf;

inline constexpr std::uint64_t kTwoTo63 = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};

inline std::string error_of(const std::string& bytes) {
  const auto source = input::make_memory_source("memory.gguf", testing::bytes_of(bytes));
  return testing::error_of([&] { read_header(*source); });
}

/// Every container that is read; hostile fields must be refused alike in each.
inline std::vector<GgufBuilder> containers() {
  return {GgufBuilder(3), GgufBuilder(2), GgufBuilder(1), GgufBuilder(3, true),
          GgufBuilder(1, true)};
}
inline std::vector<GgufBuilder> small_containers() {
  return {small_gguf(3), small_gguf(2), small_gguf(1), small_gguf(3, true), small_gguf(1, true)};
}

}  // namespace vindex::gguf
