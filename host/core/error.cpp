#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace vindex {

Error::Error(ExitCode exit_code, std::string id, const std::string& message)
    : std::runtime_error(id + ": " + message), exit_code_(exit_code), id_(std::move(id)) {}

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
      message_(std::move(message)),
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
/// Length of the valid UTF-8 sequence at `text[i]`, or 0. Overlong forms and surrogates are
/// invalid.
std::size_t utf8_length(const std::string& text, std::size_t i) {
  const auto at = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = at(i);
  std::size_t length = 0;
  unsigned int minimum = 0;
  unsigned int code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, minimum = 0x80, code = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, minimum = 0x800, code = lead & 0x0FU;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, minimum = 0x10000, code = lead & 0x07U;
  } else {
    return 0;
  }
  if (i + length > text.size()) {
    return 0;
  }
  for (std::size_t k = 1; k < length; ++k) {
    if ((at(i + k) & 0xC0U) != 0x80U) {
      return 0;
    }
    code = (code << 6U) | (at(i + k) & 0x3FU);
  }
  const bool valid = code >= minimum && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF) &&
                     // C1 control characters drive terminals too; separators and overrides of the
                     // writing direction turn the rest of a line round.
                     (code < 0x80 || code > 0x9F) && (code < 0x2028 || code > 0x202E) &&
                     (code < 0x2066 || code > 0x2069);
  return valid ? length : 0;
}
}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  std::size_t i = 0;
  while (i < text.size()) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7F) {
      out.push_back(text[i++]);
      continue;
    }
    const std::size_t length = c < 0x80 ? 0 : utf8_length(text, i);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", c);
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  return out;
}

}  // namespace vindex
