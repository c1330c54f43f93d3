// Owns the kinds of error and the exit code each leads to, warnings, and how much of a text from a
// file either shows. Exceptions end one unit of work (a run, a file, a tensor); expected outcomes
// (a matrix that is not finite) are values in reports. Messages are complete without a debugger:
// what happened, where (file, byte offset, tensor), what to do; `id` is stable so that scripts may
// match it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace vindex {

/// Exit codes of the program (sysexits), so that cluster scripts can act on them.
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,
  kMalformedInput = 65,
  kMissingInput = 66,
  kUnavailable = 69,
  kInternal = 70,
  kCannotCreate = 73,
  kInputOutput = 74,
  kStoppedEarly = 75,
  kNoPermission = 77,
  kBadConfiguration = 78,
};

/// Base of every error this project throws. what() is one line "ID: message", in which addresses
/// are as printable() shows them.
class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, std::string id, const std::string& message);
  ExitCode exit_code() const noexcept { return exit_code_; }
  const std::string& id() const noexcept { return id_; }

 private:
  ExitCode exit_code_;
  std::string id_;
};

/// The caller broke a documented condition of the command line or of a function.
class UsageError : public Error {
 public:
  UsageError(std::string id, const std::string& message);
};

/// Bytes of a file are not what its format demands. `where` names file and byte offset, or the
/// tensor.
class FormatError : public Error {
 public:
  FormatError(std::string id, const std::string& where, const std::string& message);
};

/// Something that must exist does not, or is not of the kind demanded (a folder given as a file).
class MissingInputError : public Error {
 public:
  MissingInputError(std::string id, const std::string& message);
};

/// Settings that cannot work together, or do not fit what is on disk (resume with other settings).
class ConfigurationError : public Error {
 public:
  ConfigurationError(std::string id, const std::string& message);
};

/// A system call failed. The exit code follows from errno: EACCES/EPERM 77, ENOENT/ENOTDIR/EISDIR
/// 66, else 74. It is final: what a local disk says once it says again.
class SystemError : public Error {
 public:
  SystemError(std::string id, int error_number, const std::string& message);
  int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

/// A store that is not this machine's does not answer, or not as it should (69). `retryable`: the
/// same request may succeed later, as after a broken connection or a busy server.
class RemoteError : public Error {
 public:
  RemoteError(std::string id, std::string message, bool retryable);
  const std::string& message() const noexcept { return message_; }  ///< what() without the id
  bool retryable() const noexcept { return retryable_; }

 private:
  std::string message_;
  bool retryable_;
};

/// An output could not be created (exit 73), or written once created (exit 74 by SystemError).
class OutputError : public Error {
 public:
  OutputError(std::string id, const std::string& message);
};

/// A device or a numerical library reported a failure; the context is not to be trusted afterwards.
class DeviceError : public Error {
 public:
  DeviceError(std::string id, const std::string& message);
};

/// Memory for a named purpose could not be had; callers may shrink their batch and try again.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& purpose, std::uint64_t wanted_bytes);
  std::uint64_t wanted_bytes() const noexcept { return wanted_bytes_; }

 private:
  std::uint64_t wanted_bytes_;
};

/// Throws an internal error (exit 70) naming `what`.
[[noreturn]] void fail_expectation(const char* what);

/// Fails unless `condition` holds. For programmer errors only: never reachable from input. Inline,
/// so that compilers and analysers see that nothing goes on after a failure.
inline void expects(bool condition, const char* what) {
  if (!condition) {
    fail_expectation(what);
  }
}

/// `text` with control characters and invalid UTF-8 shown as \xNN, and addresses without users,
/// passwords and queries: names from files and addresses are printed through this.
std::string printable(const std::string& text);

/// The same with addresses as they are: names of tensors, which stay what they are called.
std::string escaped(const std::string& text);

/// The beginning of `text`, printable, with "..." where more follows: a name from a file may have a
/// hundred megabytes, an error message is one line.
std::string excerpt(std::string_view text);

/// Something accepted that a user should know of.
struct Warning {
  std::string id;    ///< stable, for example "W-INDEX-TOTAL-SIZE"
  std::string text;  ///< one line; names from files already printable()
};

}  // namespace vindex
