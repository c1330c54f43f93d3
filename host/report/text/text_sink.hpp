// Owns where an export goes: a file that appears whole, or standard output.
#pragma once

#include "core/files/output_sink.hpp"

#include <string>
#include <string_view>

namespace vindex::report {

/// Text written in order. Not thread-safe.
class TextSink {
 public:
  /// `target` "-": standard output. Errors: OutputError, SystemError.
  explicit TextSink(const std::string& target);
  void write(std::string_view text);
  /// Writes what is left; a file takes its final name only now.
  void finish();

 private:
  void flush();
  OutputSink out_;
  std::string buffer_;
};

/// Makes `folder` unless it is there. Errors: OutputError where something else is in the way.
void make_output_folder(const std::string& folder);

/// One field of a CSV line (RFC 4180): quoted where it must be.
std::string csv_field(const std::string& text);
/// Shortest text that reads back as `value`; empty for NaN.
std::string csv_number(double value);
/// The same for JSON: null for what JSON cannot say.
std::string json_number(double value);
std::string json_string(const std::string& text);

}  // namespace vindex::report
