// Owns how a command reports: --report, a JSON document of one schema, beside what is printed.
#pragma once

#include "apps/process/session.hpp"

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace vindex::apps {

/// The command that says what it cost to make the model `changed` of `model`, a line to be printed.
std::string cost_line(const std::string& model, const std::string& changed, std::size_t columns);

/// A report is replaced by one of its own schema and by nothing else, so that no model, manifest or
/// configuration can be lost to a slip of the name.
class ReportFile {
 public:
  /// `path` empty: none is asked for. `outputs`: what else the command writes, empty ones aside.
  /// Errors, before any work: OutputError E-OUTPUT-EXISTS where something else lies there;
  /// UsageError E-USAGE where it is one of `outputs`, however it is spelt.
  ReportFile(std::string path, std::string_view schema,
             std::initializer_list<std::string> outputs = {});
  /// Writes `json`, which begins with the schema, to the file where one is asked for. Prints it
  /// where `is_json`, else `text` of as many columns as there are, unless --quiet. Errors: those of
  /// OutputSink.
  void report(const Session& session, bool is_json, const std::function<std::string()>& json,
              const std::function<std::string(std::size_t columns)>& text) const;

 private:
  /// Again before it is written: other outputs of the command may have come there.
  void require_place() const;

  std::string path_;
  std::string schema_;
};

}  // namespace vindex::apps
