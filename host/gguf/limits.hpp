// Owns how large the parts of a GGUF file may be. Two sets with two purposes: what this project
// reads, which bounds the time and memory that a hostile file costs (the input policy), and what
// ggml loads, which `organ verify` judges by (docs/organs/organs.md) and the writer keeps to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vindex::gguf {

/// Of both: no model has more.
inline constexpr std::uint64_t kMostTensors = 1'000'000;
inline constexpr std::uint64_t kMostKeys = 1'000'000;
inline constexpr std::size_t kMostDimensions = 4;

// What is read.
inline constexpr std::uint64_t kLongestName = 65'536;
inline constexpr std::uint64_t kLongestString = std::uint64_t{256} << 20U;
inline constexpr std::uint64_t kLongestArray = std::uint64_t{64} << 20U;
/// The largest header known (a vocabulary of 256 K tokens with merges) has 20 MB.
inline constexpr std::uint64_t kLongestHeader = std::uint64_t{1} << 30U;

// What ggml loads (src/gguf.cpp, GGML_MAX_NAME); names of keys by its docs/gguf.md.
inline constexpr std::size_t kLongestKeyOfGgml = 65'535;
inline constexpr std::size_t kLongestTensorNameOfGgml = 63;
inline constexpr std::uint64_t kLongestStringOfGgml = std::uint64_t{1} << 30U;
inline constexpr std::uint64_t kLongestArrayOfGgml = std::uint64_t{1} << 30U;

}  // namespace vindex::gguf
