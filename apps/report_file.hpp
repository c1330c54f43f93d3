// Owns --report: a JSON document of one schema beside what a verb prints.
#pragma once

#include <string>
#include <string_view>

namespace vindex::apps {

/// A report is replaced by one of its own schema and by nothing else, so that no model, manifest or
/// configuration can be lost to a slip of the name.
class ReportFile {
 public:
  /// `path` empty: none is wanted. Errors: OutputError E-OUTPUT-EXISTS where something else lies
  /// there, before any work.
  ReportFile(std::string path, std::string_view schema);
  bool is_wanted() const { return !path_.empty(); }
  /// Writes `document`, which begins with its schema; nothing where none is wanted. Errors: those
  /// of OutputSink.
  void write(const std::string& document) const;

 private:
  std::string path_;
};

}  // namespace vindex::apps
