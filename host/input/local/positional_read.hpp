// Owns one complete positional read through a pread-like call: short reads are continued,
// interrupted calls repeated. Apart from the file source so that tests can hand in a call that
// misbehaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <sys/types.h>

namespace vindex::input {

using PositionalRead = std::function<ssize_t(void* into, std::size_t bytes, std::uint64_t offset)>;

/// Fills `into` from `offset`. Errors: FormatError E-TRUNCATED where the file ends before,
/// SystemError E-READ where the call fails.
void read_fully(const PositionalRead& call, const std::string& name, std::uint64_t offset,
                std::span<std::byte> into);

/// Throws FormatError E-TRUNCATED: `bytes` are due at `offset`, but the file ends at `size`.
[[noreturn]] void throw_truncated(const std::string& name, std::uint64_t offset,
                                  std::uint64_t bytes, std::uint64_t size);

}  // namespace vindex::input
