// Owns `vindex report`: one HTML file, which needs nothing beside it, of one or several results
// files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace vindex::report {

struct WrittenPage {
  std::uint64_t bytes = 0;
  std::int64_t rows = 0;
};

/// Writes the page of `paths` to `target` ("-": standard output), which appears whole or not at
/// all. Without `replace` no file that is there is touched, and a results file never is (both
/// before any work). Errors: UsageError for a file that is given twice; OutputError;
/// MissingInputError; FormatError where a file is damaged, foreign, or a part of a run;
/// SystemError.
WrittenPage write_page(std::span<const std::string> paths, const std::string& target, bool replace);

}  // namespace vindex::report
