// Owns what tests see of the error of this project that a call throws: its id and the byte it is
// at, its message, its exit code.
#pragma once

#include <vindex/error.hpp>

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

/// Its message, "none" where `call` returns.
template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

template <typename Call>
ExitCode exit_code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.exit_code();
  }
  return ExitCode::kOk;
}

/// "E-FILE-KIND 66"; empty where `call` returns.
template <typename Call>
std::string outcome_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.id() + " " + std::to_string(static_cast<int>(error.exit_code()));
  }
  return {};
}

inline std::string at_byte(const std::string& id, std::uint64_t offset) {
  return id + " @ " + std::to_string(offset);
}

}  // namespace vindex::testing
