// Owns what each kind of file whose rows are cells promises beyond types, shapes and ranges: loads
// that sum to 1, symmetric cosines.
#pragma once

#include "results_reader.hpp"

#include <string>
#include <vector>

namespace vindex::results {

/// What `rows` of a file break, one line each. Errors: FormatError where data cannot be read.
std::vector<std::string> broken_rules(ResultsReader& reader, const FileDescription& description,
                                      const std::vector<StoredRow>& rows);

}  // namespace vindex::results
