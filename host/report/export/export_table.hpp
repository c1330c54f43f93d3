// Owns the exports `csv` and `json`: every column of a table as it is.
#pragma once

#include "export_input.hpp"

#include <string>

namespace vindex::report {

void export_csv(ExportInput& input, const std::string& target);
void export_json(ExportInput& input, const std::string& target);

}  // namespace vindex::report
