// Owns the translation of a results file into other tools' formats.
#pragma once

#include <string>

namespace vindex::results {

/// Writes `format` ("csv", "json", "phase-json", "weightwatcher", "gate-vectors") of results file
/// `path` to `target`; of its table `table` ("matrix", "imatrix", "product"), csv and json only.
/// ("-" is standard output for csv, json and weightwatcher; phase-json and gate-vectors write a
/// folder). Without `replace` no file that is there is touched, and a results file never is (both
/// before any work). Errors: UsageError for a format that the file cannot serve (gate-vectors
/// without vectors) or a table that it lacks, OutputError, SystemError.
void export_file(const std::string& path, const std::string& format, const std::string& target,
                 bool replace = true, const std::string& table = "matrix");

}  // namespace vindex::results
