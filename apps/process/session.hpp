// Owns what main() hands to a command and takes back from it: its words, its manner of speaking,
// and how it ended.
#pragma once

#include <vindex/error.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::apps {

/// How a command ended. Whatever is not kOk carries its reason, which main() prints as the one line
/// on standard error; an ending without a reason cannot be made.
class Ending {
 public:
  Ending() = default;
  /// `reason` reads "ID: what, where, what to do".
  Ending(ExitCode code, std::string reason) : code_(code), reason_(std::move(reason)) {
    expects(code_ != ExitCode::kOk && !reason_.empty(), "an ending without a reason");
  }
  ExitCode code() const { return code_; }
  const std::string& reason() const { return reason_; }

 private:
  ExitCode code_ = ExitCode::kOk;
  std::string reason_;
};

/// What main() hands to a command and takes back from it.
struct Session {
  std::vector<std::string> arguments;        ///< argv
  std::vector<std::string> unset_variables;  ///< unset_arithmetic_variables()
  bool quiet = false;
  bool verbose = false;
  std::function<Ending()> chosen;  ///< set by the command that the user named
};

}  // namespace vindex::apps
