// Owns the assertion of the hostile-input tests: this call throws this project's error with this
// id, at this byte.
#pragma once

#include <vindex/core/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace vindex::testing {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// "ID @ byte" of the error that `call` throws, "ID" where it names no byte, "none" where it
/// returns.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::size_t at = what.find(" at byte ");
    if (at == std::string::npos) {
      return error.id();
    }
    const std::size_t begin = at + 9;
    return error.id() + " @ " + what.substr(begin, what.find(':', begin) - begin);
  }
  return "none";
}

inline std::string at_byte(const std::string& id, std::uint64_t offset) {
  return id + " @ " + std::to_string(offset);
}

}  // namespace vindex::testing
