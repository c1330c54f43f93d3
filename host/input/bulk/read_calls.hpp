// Owns what bulk reads ask of the operating system; replaced in tests.
#pragma once

#include "input/local/page_residency.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::input {

/// What the reader asks of the operating system; replaced in tests.
class ReadCalls {
 public:
  virtual ~ReadCalls() = default;
  /// A second descriptor of the same open file for direct reads, or -errno.
  virtual int open_direct(int descriptor);
  virtual std::int64_t read(int descriptor, std::byte* into, std::size_t bytes,
                            std::uint64_t offset);
  virtual Residency residency(int descriptor, std::uint64_t offset, std::uint64_t bytes);
  /// A clock for the time of reads.
  virtual double seconds();
};

}  // namespace vindex::input
