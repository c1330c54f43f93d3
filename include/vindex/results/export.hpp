// Owns the translation of a results file into other tools' formats.
#pragma once

#include <string>

namespace vindex::results {

/// Writes `format` ("csv", "json", "phase-json", "weightwatcher", "gate-vectors") of results file
/// `path` to `target`
/// ("-" is standard output for csv, json and weightwatcher; phase-json and gate-vectors write a
/// folder). Without `replace` no file that is there is touched, and a results file never is (both
/// before any work). Errors: UsageError for a format that the file cannot serve (gate-vectors
/// without vectors), OutputError, SystemError.
void export_file(const std::string& path, const std::string& format, const std::string& target,
                 bool replace = true);

}  // namespace vindex::results
