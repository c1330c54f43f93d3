// Owns the kinds of errors, their exit codes and texts, and how a text that came from a file is
// made fit for a terminal.
#include "core/text/secrets.hpp"
#include "core/text/utf8.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace vindex {

Error::Error(ExitCode exit_code, std::string id, const std::string& message)
    : std::runtime_error(id + ": " + without_secrets(message)),
      exit_code_(exit_code),
      id_(std::move(id)) {}

UsageError::UsageError(std::string id, const std::string& message)
    : Error(ExitCode::kUsage, std::move(id), message) {}

FormatError::FormatError(std::string id, const std::string& where, const std::string& message)
    : Error(ExitCode::kMalformedInput, std::move(id), where + ": " + message) {}

MissingInputError::MissingInputError(std::string id, const std::string& message)
    : Error(ExitCode::kMissingInput, std::move(id), message) {}

ConfigurationError::ConfigurationError(std::string id, const std::string& message)
    : Error(ExitCode::kBadConfiguration, std::move(id), message) {}

namespace {
ExitCode exit_code_of(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return ExitCode::kNoPermission;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
      return ExitCode::kMissingInput;
    default:
      return ExitCode::kInputOutput;
  }
}
}  // namespace

SystemError::SystemError(std::string id, int error_number, const std::string& message)
    : Error(exit_code_of(error_number), std::move(id),
            error_number == 0 ? message
                              : fmt::format("{}: {}", message, std::strerror(error_number))),
      error_number_(error_number) {}

RemoteError::RemoteError(std::string id, std::string message, bool retryable)
    : Error(ExitCode::kUnavailable, std::move(id), message),
      message_(without_secrets(message)),
      retryable_(retryable) {}

OutputError::OutputError(std::string id, const std::string& message)
    : Error(ExitCode::kCannotCreate, std::move(id), message) {}

DeviceError::DeviceError(std::string id, const std::string& message)
    : Error(ExitCode::kInternal, std::move(id), message) {}

OutOfMemory::OutOfMemory(const std::string& purpose, std::uint64_t wanted_bytes)
    : Error(ExitCode::kInternal, "E-MEMORY",
            fmt::format("out of memory: {} bytes wanted for {}", wanted_bytes, purpose)),
      wanted_bytes_(wanted_bytes) {}

void fail_expectation(const char* what) { throw Error(ExitCode::kInternal, "E-INTERNAL", what); }

namespace {
/// Bytes of the character at the beginning of `text` if it may be shown, else 0.
std::size_t shown_bytes(std::string_view text) {
  const auto [bytes, code] = utf8_character(text);
  // Control characters, also of C1, drive terminals; separators and overrides of the writing
  // direction turn the rest of a line round.
  const bool shown = code >= 0x20 && (code < 0x7F || code > 0x9F) &&
                     (code < 0x2028 || code > 0x202E) && (code < 0x2066 || code > 0x2069);
  return shown ? bytes : 0;
}
}  // namespace

std::string printable(const std::string& text) { return escaped(without_secrets(text)); }

std::string escaped(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t bytes = shown_bytes(std::string_view(text).substr(i));
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
    } else {
      out.append(text, i, bytes);
      i += bytes;
    }
  }
  return out;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 200;
  constexpr std::size_t kExamined = 8192;  // a cut may not hide where a password ends
  const std::string shown = without_secrets(text.substr(0, kExamined));
  const bool goes_on = shown.size() > kShown || text.size() > kExamined;
  return printable(shown.substr(0, kShown)) + (goes_on ? "..." : "");
}

}  // namespace vindex
