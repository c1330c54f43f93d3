// Owns what is read in bulk: ranges of sources, and where their bytes arrive.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::input {

/// Direct reads begin and end at multiples of this, in the file and in memory.
inline constexpr std::uint64_t kDirectAlignment = 4096;
/// Largest single request: large enough for any drive's full rate, small enough to spread.
inline constexpr std::uint64_t kRequestBytes = 8ULL << 20U;

/// A range of a source.
struct ByteRange {
  ByteSource* source = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// One read into memory: byte `range.offset` arrives at `into`.
/// `roomy`: the memory from `into - offset % kDirectAlignment` up to the next such boundary behind
/// the range is the caller's too and may be overwritten, and `into` and the offset agree modulo
/// kDirectAlignment; without it no direct read is possible.
struct BulkExtent {
  ByteRange range;
  std::byte* into = nullptr;
  bool roomy = false;
};

}  // namespace vindex::input
